// The shortest job there is: meets the other ranks, adds one number, and says when that was done (seconds since the
// epoch). Times the start-up for vs_startup.py.
#include <lockstep/lockstep.h>

#include <ATen/ops/ones.h>

#include <chrono>
#include <cstdio>
#include <exception>

int main() try {
  const auto group = lockstep::init();
  auto number = at::ones({1});
  lockstep::all_reduce(number, group);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::printf("%.6f %g\n", std::chrono::duration<double>(now).count(), number.item<double>());
  return 0;
} catch (const std::exception& error) {
  lockstep::cluster::report_failure(error);
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
