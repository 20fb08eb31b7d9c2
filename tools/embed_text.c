/* tools/embed_text.c -- embed_text NAME FILE: prints C code that defines the string NAME with the
 * contents of a file. */
#include <stdio.h>

int main(int argc, char **argv)
{
    FILE *file = argc == 3 ? fopen(argv[2], "rb") : NULL;
    int n = 0, c;
    if (file == NULL) {
        fprintf(stderr, "usage: embed_text NAME FILE\n");
        return 1;
    }
    printf("extern const char %s[];\nconst char %s[] = {", argv[1], argv[1]);
    while ((c = fgetc(file)) != EOF)
        printf("%s%d,", n++ % 20 != 0 ? " " : "\n    ", c < 128 ? c : c - 256);
    printf("\n    0};\n");
    fclose(file);
    return ferror(stdout) != 0;
}
