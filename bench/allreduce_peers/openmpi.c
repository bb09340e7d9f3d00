// One rank of bench/allreduce: MPI_Allreduce in place. Prints per size how long an all-reduce
// took, on average over each batch. The numbers are fresh for each, as gradients are.
//   openmpi BATCHES BYTES:COUNT…

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Small whole numbers, so that sums of them are exact.
static float number(size_t place, int turn, int rank) {
  return (float)((place & 1023) + (size_t)(turn * (rank + 1)));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int batches = atoi(argv[1]);
  for (int i = 2; i < argc; ++i) {
    const size_t bytes = (size_t)atoll(argv[i]);
    const size_t numbers = bytes / sizeof(float);
    const int count = atoi(strchr(argv[i], ':') + 1);
    float* data = malloc(bytes);
    for (int batch = -1; batch < batches; ++batch) {
      double took = 0;
      for (int turn = 0; turn < count; ++turn) {
        for (size_t at = 0; at < numbers; ++at) data[at] = number(at, turn, rank);
        MPI_Barrier(MPI_COMM_WORLD);
        const double began = MPI_Wtime();
        MPI_Allreduce(MPI_IN_PLACE, data, (int)numbers, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        took += MPI_Wtime() - began;
      }
      for (size_t at = 0; at < numbers; ++at) {
        float expected = 0;
        for (int other = 0; other < size; ++other) expected += number(at, count - 1, other);
        if (data[at] == expected) continue;
        fprintf(stderr, "a wrong sum of %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
      }
      if (batch >= 0 && rank == 0) printf("%zu %.9f\n", bytes, took / count);
    }
    free(data);
  }
  MPI_Finalize();
  return 0;
}
