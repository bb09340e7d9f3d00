// Does nothing, for as long as it is let, and buries orphans: the first process of a pod, and of a machine
// of the test cluster.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void endQuietly(int signal) {
  (void)signal;
  _exit(0);
}

static void bury(int signal) {
  (void)signal;
  while (waitpid(-1, 0, WNOHANG) > 0) {
  }
}

int main(void) {
  signal(SIGTERM, endQuietly);
  signal(SIGINT, endQuietly);
  struct sigaction action = {.sa_handler = bury, .sa_flags = SA_NOCLDSTOP};
  sigaction(SIGCHLD, &action, 0);
  for (;;) pause();
}
