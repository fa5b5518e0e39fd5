// A rank of a job that goes wrong, for tests that start it with a launcher:
//   lockstep_comm_rank abort VICTIM    the victim gives up while the others wait for it
//   lockstep_comm_rank fork PARENT     this rank's process has a child that exits before the job goes on
// Prints what this rank saw as an error, and ends with code 3 for it.
#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>

#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

int main(int count, char** arguments) {
  const std::string mode = count == 3 ? arguments[1] : "";
  if (mode != "abort" && mode != "fork") {
    std::fprintf(stderr, "usage: %s abort VICTIM, or fork PARENT\n", arguments[0]);
    return 2;
  }
  try {
    lockstep::GroupOptions options;
    options.backend = "mpi";
    auto group = lockstep::init(options);
    lockstep::barrier(group);
    const bool chosen = std::to_string(group.rank()) == arguments[2];
    if (chosen && mode == "fork") {
      const pid_t child = ::fork();
      if (child == 0) std::exit(0);
      ::waitpid(child, nullptr, 0);
    } else if (chosen) {
      group.abort("out of luck at step 7");
      // Time for the others to read it, before the launcher notices this end and ends them.
      std::this_thread::sleep_for(std::chrono::seconds(5));
      return 4;
    }
    lockstep::barrier(group);
    std::printf("no error\n");
    return 0;
  } catch (const lockstep::Error& error) {
    std::printf("saw: %s\n", error.what());
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::seconds(2));
    return 3;
  }
}
