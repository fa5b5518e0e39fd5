// MPI's C interface without the C++ one that some headers still add, and that would need another library.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
