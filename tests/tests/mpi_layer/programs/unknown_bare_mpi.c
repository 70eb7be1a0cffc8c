/* The same without the names that begin with PMPI_. */
int MPI_Init(void *argc, void *argv) { return argc != argv; }
int MPI_Bcast(int *buffer, int count, void *datatype, int root, void *comm) {
  *buffer += count;
  return root + 5 + (datatype != comm);
}
int MPI_Finalize(void) { return 0; }
