// One rank of bench/allreduce: MPI_Allreduce in place. Prints per size what a batch of sums took.
//   openmpi BATCHES BYTES:COUNT…

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int batches = atoi(argv[1]);
  for (int i = 2; i < argc; ++i) {
    const size_t bytes = (size_t)atoll(argv[i]);
    const int count = atoi(strchr(argv[i], ':') + 1);
    float* data = malloc(bytes);
    memset(data, 0, bytes);
    for (int batch = -1; batch < batches; ++batch) {
      const double began = MPI_Wtime();
      for (int turn = 0; turn < count; ++turn) {
        MPI_Allreduce(MPI_IN_PLACE, data, (int)(bytes / sizeof *data), MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
      }
      const double took = MPI_Wtime() - began;
      if (batch >= 0 && rank == 0) printf("%zu %.9f\n", bytes, took / count);
    }
    free(data);
  }
  MPI_Finalize();
  return 0;
}
