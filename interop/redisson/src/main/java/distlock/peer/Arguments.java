package distlock.peer;

import java.util.Arrays;
import java.util.List;

/** The words after a command, taken one by one. */
final class Arguments {
    private final String[] words;
    private int next;

    Arguments(String[] words) {
        this.words = words;
    }

    String word() {
        if (next == words.length) {
            throw new IllegalArgumentException("an argument is missing");
        }
        return words[next++];
    }

    int number() {
        return Integer.parseInt(word());
    }

    long millis() {
        return Long.parseLong(word());
    }

    List<String> rest() {
        List<String> rest = Arrays.asList(words).subList(next, words.length);
        next = words.length;
        return rest;
    }
}
