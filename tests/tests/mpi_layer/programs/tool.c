/* A tool, as profilers are: it meets the calls with which a program begins and ends, and passes them on. */
#include <mpi.h>
#include <stdio.h>

int MPI_Init(int *argc, char ***argv) {
  int code = PMPI_Init(argc, argv);
  fprintf(stderr, "the tool begins\n");
  return code;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  int code = PMPI_Init_thread(argc, argv, required, provided);
  fprintf(stderr, "the tool begins\n");
  return code;
}

int MPI_Finalize(void) {
  fprintf(stderr, "the tool ends\n");
  return PMPI_Finalize();
}
