! Collectives in Fortran: what arrives is worked out here.
program layered
  use mpi
  implicit none
  integer, parameter :: n = 40000
  integer :: ierr, rank, ranks, i, j, copy, wrong, all_wrong
  integer, allocatable :: one(:), all(:), back(:), counts(:), places(:)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  allocate (one(n), all(n*ranks), back(n*ranks), counts(ranks), places(ranks))
  wrong = 0

  one = -1
  if (rank == 1) one = [(3*i, i=1, n)]
  call MPI_Bcast(one, n, MPI_INTEGER, 1, MPI_COMM_WORLD, ierr)
  wrong = wrong + count(one /= [(3*i, i=1, n)]) + ierr

  one = [(3*i + rank, i=1, n)]
  call MPI_Allgather(one, n, MPI_INTEGER, all, n, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  wrong = wrong + count(all /= [((3*i + j, i=1, n), j=0, ranks - 1)]) + ierr

  all = -1
  all(rank*n + 1:(rank + 1)*n) = one
  call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, n, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  wrong = wrong + count(all /= [((3*i + j, i=1, n), j=0, ranks - 1)]) + ierr

  counts = n
  places = [((ranks - 1 - j)*n, j=0, ranks - 1)]
  call MPI_Allgatherv(one, n, MPI_INTEGER, all, counts, places, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  wrong = wrong + count(all /= [((3*i + j, i=1, n), j=ranks - 1, 0, -1)]) + ierr

  all = [((3*i + 10*rank + j, i=1, n), j=0, ranks - 1)]
  call MPI_Alltoall(all, n, MPI_INTEGER, back, n, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  wrong = wrong + count(back /= [((3*i + 10*j + rank, i=1, n), j=0, ranks - 1)]) + ierr

  places = [(j*n, j=0, ranks - 1)]
  back = -1
  call MPI_Alltoallv(all, counts, places, MPI_INTEGER, back, counts, places, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  wrong = wrong + count(back /= [((3*i + 10*j + rank, i=1, n), j=0, ranks - 1)]) + ierr

  back = -1
  call MPI_Gather(one, n, MPI_INTEGER, back, n, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  if (rank == 0) wrong = wrong + count(back /= [((3*i + j, i=1, n), j=0, ranks - 1)])
  if (rank /= 0) wrong = wrong + count(back /= -1)
  wrong = wrong + ierr

  back = -1
  call MPI_Gatherv(one, n, MPI_INTEGER, back, counts, places, MPI_INTEGER, 1, MPI_COMM_WORLD, ierr)
  if (rank == 1) wrong = wrong + count(back /= [((3*i + j, i=1, n), j=0, ranks - 1)])
  wrong = wrong + ierr

  one = -1
  call MPI_Scatter(all, n, MPI_INTEGER, one, n, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  wrong = wrong + count(one /= [(3*i + rank, i=1, n)]) + ierr

  one = -1
  call MPI_Scatterv(all, counts, places, MPI_INTEGER, one, n, MPI_INTEGER, 1, MPI_COMM_WORLD, ierr)
  wrong = wrong + count(one /= [(3*i + 10 + rank, i=1, n)]) + ierr

  one = [(3*i + rank, i=1, n)]
  back = -1
  call MPI_Allreduce(one, back, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  wrong = wrong + count(back(1:n) /= [(3*i*ranks + ranks*(ranks - 1)/2, i=1, n)]) + ierr

  call MPI_Allreduce(MPI_IN_PLACE, one, n, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, ierr)
  wrong = wrong + count(one /= [(3*i + ranks - 1, i=1, n)]) + ierr

  one = [(3*i + rank, i=1, n)]
  back = -1
  call MPI_Reduce(one, back, n, MPI_INTEGER, MPI_MIN, 1, MPI_COMM_WORLD, ierr)
  if (rank == 1) wrong = wrong + count(back(1:n) /= [(3*i, i=1, n)])
  wrong = wrong + ierr

  one = -1
  all = [((3*i + j, i=1, n), j=0, ranks - 1)]
  call MPI_Reduce_scatter_block(all, one, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  wrong = wrong + count(one /= [((3*i + rank)*ranks, i=1, n)]) + ierr

  one = -1
  call MPI_Reduce_scatter(all, one, counts, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  wrong = wrong + count(one /= [((3*i + rank)*ranks, i=1, n)]) + ierr

  one = [(3*i + rank, i=1, n)]
  call MPI_Comm_dup(MPI_COMM_WORLD, copy, ierr)
  call MPI_Gatherv(one, n, MPI_INTEGER, back, counts, places, MPI_INTEGER, 0, copy, ierr)
  if (rank == 0) wrong = wrong + count(back /= [((3*i + j, i=1, n), j=0, ranks - 1)])
  wrong = wrong + ierr
  call MPI_Comm_free(copy, ierr)
  if (copy /= MPI_COMM_NULL) wrong = wrong + 1
  wrong = wrong + ierr

  call MPI_Allreduce(wrong, all_wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (rank == 0 .and. all_wrong == 0) print '(a)', 'all is well'
  call MPI_Finalize(ierr)
  if (all_wrong /= 0) stop 1
end program
