package distlock.peer;

import java.io.BufferedInputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/**
 * A connection to a plain Redis, one command at a time. Histories go through it and not through Redisson, so that they can
 * be kept on a server that has nothing to do with the locks.
 */
final class Plain implements Closeable {
    private final Socket socket;
    private final InputStream in;

    Plain(String place) throws IOException {
        int colon = place.lastIndexOf(':');
        socket = new Socket(place.substring(0, colon), Integer.parseInt(place.substring(colon + 1)));
        socket.setTcpNoDelay(true);
        in = new BufferedInputStream(socket.getInputStream());
    }

    /** The reply as text; null where there is none. */
    String ask(String... words) throws IOException {
        StringBuilder command = new StringBuilder("*" + words.length + "\r\n");
        for (String word : words) {
            int length = word.getBytes(StandardCharsets.UTF_8).length;
            command.append('$').append(length).append("\r\n").append(word).append("\r\n");
        }
        socket.getOutputStream().write(command.toString().getBytes(StandardCharsets.UTF_8));
        String head = line();
        String rest = head.substring(1);
        switch (head.charAt(0)) {
            case '+', ':':
                return rest;
            case '$':
                if (rest.equals("-1")) {
                    return null;
                }
                byte[] bytes = in.readNBytes(Integer.parseInt(rest));
                line();
                return new String(bytes, StandardCharsets.UTF_8);
            default:
                throw new IOException(words[0] + ": " + rest);
        }
    }

    private String line() throws IOException {
        StringBuilder line = new StringBuilder();
        for (int letter = in.read(); letter != '\r'; letter = in.read()) {
            if (letter < 0) {
                throw new IOException("the server closed the connection");
            }
            line.append((char) letter);
        }
        in.read();
        return line.toString();
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }
}
