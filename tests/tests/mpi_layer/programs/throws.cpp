// What a handler of errors throws comes to where the program catches it.
#include <mpi.h>
#include <cstdio>
#include <stdexcept>
#include <vector>

static void throws(MPI_Comm *, int *, ...) { throw std::runtime_error("MPI"); }

template <typename Call> static int caught(Call call) {
  try {
    call();
  } catch (const std::runtime_error &) {
    return 1;
  }
  return 0;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int wrong = 0, all = 0, rank, n = 1 << 20;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm copy;
  MPI_Errhandler handler;
  MPI_Comm_create_errhandler(throws, &handler);
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_set_errhandler(copy, handler);
  std::vector<int> a(n), b(n);
  // Short, and as long as what is compressed.
  for (int count : {4, n}) {
    wrong += !caught([&] { MPI_Bcast(a.data(), count, MPI_INT, 99, copy); });
    wrong += !caught([&] { MPI_Allreduce(a.data(), b.data(), count, MPI_DATATYPE_NULL, MPI_SUM, copy); });
    wrong += !caught([&] { MPI_Gather(a.data(), count, MPI_INT, b.data(), count, MPI_INT, 99, copy); });
  }
  // And nothing is amiss then.
  for (int i = 0; i < n; i++) a[i] = rank == 0 ? 3 * i : -1;
  wrong += caught([&] { MPI_Bcast(a.data(), n, MPI_INT, 0, copy); });
  for (int i = 0; i < n; i++) wrong += a[i] != 3 * i;
  MPI_Comm_free(&copy);
  MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) std::printf("%s\n", all ? "not well" : "all is well");
  MPI_Errhandler_free(&handler);
  MPI_Finalize();
  return all != 0;
}
