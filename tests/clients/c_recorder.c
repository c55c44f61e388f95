/* Writes the traces of the conformance set with the recorder of docs/trace-format.md; every value is `hex:`. */
#include RECORDER

static void decode(char *text) { /* percent-encoded, in place */
    char *out = text;
    for (; *text; text++, out++) {
        unsigned byte = (unsigned char)*text;
        if (byte == '%' && sscanf(text + 1, "%2x", &byte) == 1) text += 2;
        *out = (char)byte;
    }
    *out = 0;
}

static void add(char *more, const char *field, char *text) { /* the characters that the set has in slot, op and dims */
    char *out = more + strlen(more);
    decode(text);
    for (out += sprintf(out, ", \"%s\": \"", field); *text; text++) {
        if (strchr("\"\\", *text)) *out++ = '\\';
        *out++ = *text;
    }
    strcpy(out, "\"");
}

static const char *descr_of(const char *dtype) {
    static const char *known[] = {"float64", "<f8", "float32", "<f4", "float16", "<f2", "complex128", "<c16", "complex64", "<c8",
                                  "bool", "|b1", "int64", "<i8", "int32", "<i4", "int16", "<i2", "int8", "|i1", "uint64", "<u8",
                                  "uint32", "<u4", "uint16", "<u2", "uint8", "|u1", "bfloat16", "<u2"};
    for (size_t at = 0; at < sizeof known / sizeof *known; at += 2) if (!strcmp(known[at], dtype)) return known[at + 1];
    return "|u1"; /* float8 */
}

int main(int count, char **arguments) {
    static char line[1 << 16], bytes[1 << 15], current[256];
    FILE *table = count == 4 ? fopen(arguments[2], "r") : NULL;
    int crash = count == 4 && !strcmp(arguments[1], "crash");
    Trace trace = {0};
    if (!table || !fgets(line, sizeof line, table)) return 2;
    while (fgets(line, sizeof line, table)) {
        char *field[13], *at = line, more[2048], folder[2048];
        long shape[8];
        size_t size = 0;
        int axes = 0;
        for (int index = 0; index < 13; index++) {
            field[index] = at;
            at += strcspn(at, "\t\n");
            *at++ = 0;
        }
        if ((strcmp(field[0], "crash") == 0) != crash) continue;
        if (strcmp(current, field[0])) {
            if (!trace_close(&trace)) return 3;
            snprintf(folder, sizeof folder, "%s/%s", arguments[3], strcpy(current, field[0]));
            mkdir(arguments[3], 0777);
            if (!trace_open(&trace, folder)) return 4;
        }
        for (at = field[10]; *at >= '0' && *at <= '9'; at += *at == ',') shape[axes++] = strtol(at, &at, 10);
        for (at = field[12] + strlen("hex:"); *at; at += 2, size++) {
            unsigned byte = 0;
            sscanf(at, "%2x", &byte);
            bytes[size] = (char)byte;
        }
        sprintf(more, "\"role\": \"%s\", \"step\": %s, \"rank\": %s, \"world\": %s", field[4], field[6], field[1], field[2]);
        add(more, "slot", field[5]);
        if (strcmp(field[7], "-")) add(more, "op", field[7]);
        if (strcmp(field[8], "-")) add(more, "dims", field[8]);
        decode(field[3]);
        if (!trace_tap(&trace, field[3], field[9], descr_of(field[9]), bytes, size, axes, shape, more)) return 5;
    }
    fclose(table);
    if (crash) abort();
    return trace_close(&trace) ? 0 : 6;
}
