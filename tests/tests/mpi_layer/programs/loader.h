/* What tools share that stand between the layer and MPI: they have a `dlsym` of their own, which finds by that of the loader what they leave. */
#define _GNU_SOURCE
#include <dlfcn.h>

static void *find(void *library, const char *name) {
  static const char *versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
  static void *(*loader)(void *, const char *);
  for (int i = 0; !loader && i < 3; i++) loader = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", versions[i]);
  return loader(library, name);
}
