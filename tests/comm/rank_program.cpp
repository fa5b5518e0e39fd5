// A rank of a job that goes wrong, for tests that start it with a launcher:
//   lockstep_comm_rank abort VICTIM    the victim gives up while the others wait for it
// Prints what this rank saw as an error, and ends with code 3 for it.
#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>

#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

int main(int count, char** arguments) {
  if (count != 3 || std::string(arguments[1]) != "abort") {
    std::fprintf(stderr, "usage: %s abort VICTIM\n", arguments[0]);
    return 2;
  }
  try {
    lockstep::GroupOptions options;
    options.backend = "mpi";
    auto group = lockstep::init(options);
    lockstep::barrier(group);
    if (std::to_string(group.rank()) == arguments[2]) {
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
