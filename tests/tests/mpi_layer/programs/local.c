/* Runs the main program of a library, which is loaded with all that it needs, MPI too, for itself alone: as a module of Python is. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  int (*run)(int, char **) = library ? (int (*)(int, char **))dlsym(library, "main") : 0;
  if (!run) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  return run(argc, argv);
}
