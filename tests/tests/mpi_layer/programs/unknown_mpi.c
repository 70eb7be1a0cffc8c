/* By its name it may be MPICH, but it has what Open MPI alone has. */
int ompi_mpi_comm_world;

int PMPI_Init(void *argc, void *argv) { return argc != argv; }
int PMPI_Bcast(int *buffer, int count, void *datatype, int root, void *comm) {
  *buffer += count;
  return root + 5 + (datatype != comm);
}
int PMPI_Finalize(void) { return 0; }
/* Tools may stand before these two, so the layer calls them by their own names. */
int MPI_Init(void *argc, void *argv) { return PMPI_Init(argc, argv); }
int MPI_Bcast(int *buffer, int count, void *datatype, int root, void *comm) { return 1; }
int MPI_Finalize(void) { return PMPI_Finalize(); }
