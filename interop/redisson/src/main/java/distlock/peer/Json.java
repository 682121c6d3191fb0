package distlock.peer;

import java.util.List;
import java.util.Map;

/** Writes the few kinds of JSON that answers are made of. */
final class Json {
    private Json() {
    }

    static String of(Object value) {
        StringBuilder text = new StringBuilder();
        write(text, value);
        return text.toString();
    }

    private static void write(StringBuilder text, Object value) {
        if (value == null || value instanceof Boolean || value instanceof Number) {
            text.append(value);
        } else if (value instanceof Map<?, ?> map) {
            String between = "{";
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                text.append(between);
                quote(text, entry.getKey().toString());
                text.append(':');
                write(text, entry.getValue());
                between = ",";
            }
            text.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof List<?> list) {
            text.append('[');
            String between = "";
            for (Object item : list) {
                text.append(between);
                write(text, item);
                between = ",";
            }
            text.append(']');
        } else {
            quote(text, value.toString());
        }
    }

    private static void quote(StringBuilder text, String string) {
        text.append('"');
        for (char letter : string.toCharArray()) {
            if (letter == '"' || letter == '\\') {
                text.append('\\').append(letter);
            } else if (letter < ' ') {
                text.append(String.format("\\u%04x", (int) letter));
            } else {
                text.append(letter);
            }
        }
        text.append('"');
    }
}
