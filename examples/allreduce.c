// Adds up the ranks of all processes, and tells how long a sum over a megabyte takes.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kCount = 1 << 17, kTurns = 50 };

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);

  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  const char* task = getenv("DURE_TASK");
  printf("rank %d of %d in %s: the sum of all is %d\n", rank, size, task ? task : "no task", sum);

  double* values = calloc(kCount, sizeof *values);
  double* sums = calloc(kCount, sizeof *sums);
  MPI_Barrier(MPI_COMM_WORLD);
  const double began = MPI_Wtime();
  for (int turn = 0; turn < kTurns; ++turn) {
    MPI_Allreduce(values, sums, kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  if (rank == 0) printf("1 MiB takes %.2f ms\n", (MPI_Wtime() - began) / kTurns * 1000);
  free(values);
  free(sums);
  MPI_Finalize();
  return 0;
}
