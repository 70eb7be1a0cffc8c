/* A tool that stands for a link: where the layer asks the loader for functions of MPI, it gets some that take longer, by as many microseconds
   as RAW_US and COMPRESSED_US say. */
#include "loader.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static MPI_Request receiving;
static MPI_Datatype received;

/* What the layer itself sends is bytes, what the program does is not. Words in which ranks tell each other something are shorter. What else is
   on its way goes on meanwhile. */
static void carry(long count, MPI_Datatype type) {
  double end = MPI_Wtime() + atol(getenv(type == MPI_BYTE ? "COMPRESSED_US" : "RAW_US")) * 1e-6;
  for (int any; count > 1000 && MPI_Wtime() < end; usleep(100))
    PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &any, MPI_STATUS_IGNORE);
}

static int bcast(void *at, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  carry(count, type);
  return PMPI_Bcast(at, count, type, root, comm);
}

static int allgather(const void *from, int sent, MPI_Datatype of, void *at, int count, MPI_Datatype type, MPI_Comm comm) {
  carry(count, type);
  return PMPI_Allgather(from, sent, of, at, count, type, comm);
}

static int allgatherv(const void *from, int sent, MPI_Datatype of, void *at, const int *counts, const int *places,
                      MPI_Datatype type, MPI_Comm comm) {
  carry(counts[0], type);
  return PMPI_Allgatherv(from, sent, of, at, counts, places, type, comm);
}

static int alltoall(const void *from, int sent, MPI_Datatype of, void *at, int count, MPI_Datatype type, MPI_Comm comm) {
  carry(count, type);
  return PMPI_Alltoall(from, sent, of, at, count, type, comm);
}

static int irecv(void *at, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request) {
  int code = PMPI_Irecv(at, count, type, from, tag, comm, request);
  receiving = *request, received = type;
  return code;
}

/* A message is on its way while its receiver waits, not while its sender begins to send: that one is about to receive, too. */
static int wait_for(MPI_Request *request, MPI_Status *status) {
  int is_it = *request == receiving, count = 0, code = PMPI_Wait(request, status);
  if (!is_it) return code;
  PMPI_Get_count(status, received, &count);
  carry(count, received);
  receiving = MPI_REQUEST_NULL;
  return code;
}

void *dlsym(void *library, const char *name) {
  if (!strcmp(name, "PMPI_Bcast")) return (void *)bcast;
  if (!strcmp(name, "PMPI_Allgather")) return (void *)allgather;
  if (!strcmp(name, "PMPI_Allgatherv")) return (void *)allgatherv;
  if (!strcmp(name, "PMPI_Alltoall")) return (void *)alltoall;
  if (!strcmp(name, "PMPI_Irecv")) return (void *)irecv;
  if (!strcmp(name, "PMPI_Wait")) return (void *)wait_for;
  return find(library, name);
}
