/* Runs a fuzz target over every file of the directories given: the committed corpus
 * as a plain test, with any compiler. Fails when a directory is missing or empty, so
 * that a lost corpus does not look like a passing one. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz/fuzz.h"

static int is_file(const char* path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Runs the target on one file; 0 on a read error. The buffer has exactly the file's
 * size, so that a sanitizer sees a read past its end. */
static int run_file(const char* path) {
  FILE* f = fopen(path, "rb");
  struct stat st;
  if (f == NULL || fstat(fileno(f), &st) != 0) {
    perror(path);
    if (f != NULL) fclose(f);
    return 0;
  }
  size_t size = (size_t)st.st_size;
  uint8_t* data = malloc(size > 0 ? size : 1);
  int ok = data != NULL && fread(data, 1, size, f) == size;
  fclose(f);
  /* Printed first: a crash then names its input. */
  fprintf(stderr, "%s\n", path);
  if (ok) LLVMFuzzerTestOneInput(data, size);
  free(data);
  return ok;
}

static int run_directory(const char* directory) {
  struct dirent** entries = NULL;
  int n = scandir(directory, &entries, NULL, alphasort);
  int count = 0;
  int ok = n >= 0;
  if (n < 0) perror(directory);
  for (int i = 0; i < n; i++) {
    char path[4096];
    int len = snprintf(path, sizeof path, "%s/%s", directory, entries[i]->d_name);
    if (len > 0 && (size_t)len < sizeof path && is_file(path)) {
      ok = run_file(path) && ok;
      count++;
    }
    free(entries[i]);
  }
  free(entries);
  printf("%s: %d inputs\n", directory, count);
  return ok && count > 0;
}

int main(int argc, char** argv) {
  int ok = argc > 1;
  for (int i = 1; i < argc; i++) ok = run_directory(argv[i]) && ok;
  if (!ok) fprintf(stderr, "replay failed: no directory, an empty one, or an unreadable input\n");
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
