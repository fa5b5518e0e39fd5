// What encryption costs: all_reduce of float32 on two ranks of this machine over loopback, gloo and tls in turn.
//
//   lockstep certs init certs --nodes localhost
//   bench/encryption_cost --certificates certs/localhost/config.json
//
// Prints one JSON object for each size: microseconds (medians of the rounds), and the median of each round's ratio.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <sys/wait.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace {

using lockstep::Group;
using Clock = std::chrono::steady_clock;

constexpr int kRanks = 2;

struct Arguments {
  std::string certificates;
  std::vector<std::int64_t> sizes = {64 << 10, 1 << 20, 25 << 20, 100 << 20};
  int rounds = 5;
};

Group group_of(const std::string& backend, const Arguments& arguments, const std::string& folder, int rank) {
  lockstep::World world;
  world.rank = rank;
  world.size = kRanks;
  world.local_rank = rank;
  world.local_size = kRanks;
  world.rendezvous = lockstep::Rendezvous::file;
  world.store_path = folder + "/" + backend;
  lockstep::GroupOptions options;
  options.backend = backend;
  options.cluster.config_file_path = arguments.certificates;
  return connect(world, options);
}

double microseconds(const Group& group, at::Tensor& tensor, int times) {
  barrier(group);
  const auto start = Clock::now();
  for (int i = 0; i < times; ++i) all_reduce(tensor, group);
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / times;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(const Arguments& arguments, const std::string& folder, int rank) {
  at::set_num_threads(1);
  const auto gloo = group_of("gloo", arguments, folder, rank).unchecked();
  const auto tls = group_of("tls", arguments, folder, rank).unchecked();
  for (const auto bytes : arguments.sizes) {
    auto tensor = at::ones({bytes / static_cast<std::int64_t>(sizeof(float))});
    const int times = static_cast<int>(std::clamp<std::int64_t>((64 << 20) / bytes, 3, 200));
    std::vector<double> plain;
    std::vector<double> encrypted;
    std::vector<double> ratios;
    for (int round = 0; round <= arguments.rounds; ++round) {
      const double one = microseconds(gloo, tensor, times);
      const double other = microseconds(tls, tensor, times);
      tensor.fill_(1);
      if (round == 0) continue;  // the first of a size allocates
      plain.push_back(one);
      encrypted.push_back(other);
      ratios.push_back(other / one);
    }
    if (rank != 0) continue;
    const nlohmann::ordered_json row = {{"bytes", bytes},
                                        {"gloo_us", median(plain)},
                                        {"tls_us", median(encrypted)},
                                        {"ratio", median(ratios)},
                                        {"lowest_ratio", *std::min_element(ratios.begin(), ratios.end())},
                                        {"highest_ratio", *std::max_element(ratios.begin(), ratios.end())}};
    std::printf("%s\n", row.dump().c_str());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  Arguments arguments;
  CLI::App app("Times all_reduce of two ranks over loopback, with gloo and with tls");
  app.add_option("--certificates", arguments.certificates, "The config.json of 'lockstep certs init'")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--sizes", arguments.sizes, "Bytes, with commas between them")->delimiter(',');
  app.add_option("--rounds", arguments.rounds)->check(CLI::Range(1, 1000))->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  const lockstep::TemporaryFolder folder("lockstep-encryption");
  const pid_t other = ::fork();
  if (other == 0) {
    try {
      measure(arguments, folder.path(), 1);
      ::_exit(0);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank 1: %s\n", error.what());
      ::_exit(1);
    }
  }
  measure(arguments, folder.path(), 0);
  int status = 0;
  return ::waitpid(other, &status, 0) == other && status == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "encryption_cost: %s\n", error.what());
  return 1;
}
