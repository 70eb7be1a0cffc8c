/* A program on an MPI of its own, which no layer knows: its calls arrive there, and what they return comes back. */
int MPI_Init(void *argc, void *argv);
int MPI_Bcast(void *buffer, int count, void *datatype, int root, void *comm);
int MPI_Finalize(void);

int main(void) {
  int data = 5;
  return MPI_Init(0, 0) != 0 || MPI_Bcast(&data, 1, 0, 3, 0) != 8 || data != 6 || MPI_Finalize() != 0;
}
