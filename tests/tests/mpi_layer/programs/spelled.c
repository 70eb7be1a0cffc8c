/* Calls MPI's functions for Fortran by all names that compilers give them. */
#include "common.h"
#include <dlfcn.h>

#ifdef OPEN_MPI
#define LIBRARY "libmpi_mpifh.so.40"
#define IN_MODULES "ompi_allgather_f"
#else
#define LIBRARY "libmpichfort.so.12"
#define IN_MODULES "mpi_allgather_"
#endif

typedef void Init(int *);
typedef void Allgather(void *, int *, MPI_Fint *, void *, int *, MPI_Fint *, MPI_Fint *, int *);

static void *function(const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  if (!found) fprintf(stderr, "WRONG: there is no %s\n", name), exit(3);
  return found;
}

static void gather(Allgather *allgather, const char *name, uint32_t seed) {
  int rank, size, count = 40000, code = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Fint comm = MPI_Comm_c2f(MPI_COMM_WORLD), type = MPI_Type_c2f(MPI_INT);
  size_t bytes = 4 * (size_t)count;
  char *own = need(bytes), *all = need(bytes * size), *expected = need(bytes);
  fill(own, bytes, seed + rank, SMOOTH);
  allgather(own, &count, &type, all, &count, &type, &comm, &code);
  if (code != MPI_SUCCESS) fail("code", name, code);
  for (int i = 0; i < size; i++) {
    fill(expected, bytes, seed + i, SMOOTH);
    same("received", name, all + i * bytes, expected, bytes);
  }
  free(own), free(all), free(expected);
}

int main(void) {
  if (!dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL)) return 3;
  int code = -1;
  ((Init *)function("mpi_init__"))(&code);
  if (code != MPI_SUCCESS) return 3;
  const char *names[] = {"mpi_allgather_", "mpi_allgather", "mpi_allgather__", "MPI_ALLGATHER", IN_MODULES};
  for (int i = 0; i < 5; i++) gather((Allgather *)function(names[i]), names[i], 100 * i);
  return finish();
}
