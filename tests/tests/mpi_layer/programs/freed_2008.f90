! Functions that a program has called when an attribute goes may use the communicator that is freed, by the module of Fortran 2008 too.
program layered
  use mpi_f08
  implicit none
  integer, parameter :: n = 4096, times = 300
  integer, save :: own(n), rank, ranks, key, i, wrong, all_wrong, freed = 0
  integer, allocatable, save :: all(:), counts(:), places(:)
  type(MPI_Comm), save :: copy
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  allocate (all(n*ranks))
  counts = [(n, i=1, ranks)]
  places = [(n*(i - 1), i=1, ranks)]
  own = [(i/100, i=1, n)]
  call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, gone, key, 0_MPI_ADDRESS_KIND)
  do i = 0, times - 1
    call MPI_Comm_dup(MPI_COMM_WORLD, copy)
    ! Attributes go from the last to the first, and that of the layer comes with the first collective.
    call MPI_Comm_set_attr(copy, key, 0_MPI_ADDRESS_KIND)
    call gather(i)
    if (mod(i/2, 2) == 0) then
      call MPI_Comm_free(copy)
    else
      call MPI_Comm_disconnect(copy, wrong)
    end if
  end do
  wrong = 0
  if (freed /= times .or. copy /= MPI_COMM_NULL) wrong = 1
  call MPI_Comm_free_keyval(key)
  call MPI_Allreduce(wrong, all_wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0 .and. all_wrong == 0) print '(a)', 'all is well'
  call MPI_Finalize()
  if (all_wrong /= 0) stop 1
contains
  subroutine gather(at)
    integer, intent(in) :: at
    call MPI_Gatherv(own, n, MPI_INTEGER, all, counts, places, MPI_INTEGER, mod(at, ranks), copy)
  end subroutine
  ! Open MPI 4.1 hands over another communicator.
  subroutine gone(comm, keyval, value, extra, error)
    type(MPI_Comm) :: comm
    integer :: keyval, error
    integer(MPI_ADDRESS_KIND) :: value, extra
    call gather(freed)
    freed = freed + 1
    error = MPI_SUCCESS
  end subroutine
end program
