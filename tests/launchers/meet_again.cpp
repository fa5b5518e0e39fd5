// A rank whose program meets the others several times, one group after the other:
//   lockstep_meet_again MEETINGS SEED PROGRAM                          as the environment says
//   lockstep_meet_again MEETINGS SEED PROGRAM spawn RANKS              as ranks that it starts itself
//   lockstep_meet_again MEETINGS SEED PROGRAM nodes CTRL_PORT ADDRESS...
// In each rendezvous the ranks tell each other PROGRAM and the rendezvous's number, which must be the same. Then each
// pauses for a random time of its own before it destroys its group. Rank 0 says "PROGRAM met MEETINGS times".
#include <lockstep/lockstep.h>

#include <ATen/ATen.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using Join = std::function<lockstep::Group()>;

struct Program {
  int rendezvous = 0;
  unsigned seed = 0;
  int number = 0;
};

void expect_same(int number, const lockstep::Group& group) {
  const auto mine = at::full({1}, number, at::kLong);
  const auto all = lockstep::all_gather(mine, group);
  if (all.numel() != group.size() || !all.eq(mine).all().item<bool>()) {
    throw std::runtime_error("these ranks are of different rendezvous");
  }
}

// Half of the time none at all, else up to a quarter of a second.
std::chrono::milliseconds pause(std::mt19937& random) {
  const bool none = random() % 2 == 0;
  return std::chrono::milliseconds(none ? 0 : random() % 250);
}

int meet(const Program& program, int rendezvous, const Join& join, std::mt19937* random) {
  const auto group = join();
  expect_same(program.number * 1000 + rendezvous, group);
  std::vector<int> reversed(group.ranks().rbegin(), group.ranks().rend());
  expect_same(program.number * 1000 + rendezvous, *group.subgroup(reversed));
  random->discard(static_cast<unsigned long long>(group.rank()));  // so that ranks differ
  std::this_thread::sleep_for(pause(*random));
  return group.rank();
}

void run(const Program& program, const Join& join) {
  std::mt19937 random(program.seed);
  int rank = 0;
  for (int rendezvous = 1; rendezvous <= program.rendezvous; ++rendezvous)
    rank = meet(program, rendezvous, join, &random);
  if (rank == 0) std::printf("%d met %d times\n", program.number, program.rendezvous);
  std::fflush(stdout);
}

void run_as_told(const Program& program, const std::vector<std::string>& more) {
  if (more.empty()) return run(program, [] { return lockstep::init(); });
  if (more.size() == 2 && more[0] == "spawn") {
    return lockstep::spawn([&](int) { run(program, [] { return lockstep::init(); }); }, std::stoi(more[1]));
  }
  if (more.size() < 3 || more[0] != "nodes") throw std::invalid_argument("spawn RANKS, or nodes CTRL_PORT ADDRESS...");
  lockstep::NodeList nodes;
  nodes.ctrl_port = static_cast<std::uint16_t>(std::stoi(more[1]));
  nodes.addresses.assign(more.begin() + 2, more.end());
  run(program, [&] { return lockstep::init(nodes); });
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() < 3) {
    std::fprintf(stderr, "usage: %s MEETINGS SEED PROGRAM [spawn RANKS | nodes CTRL_PORT ADDRESS...]\n", arguments[0]);
    return 2;
  }
  try {
    const Program program{std::stoi(words[0]), static_cast<unsigned>(std::stoul(words[1])), std::stoi(words[2])};
    run_as_told(program, {words.begin() + 3, words.end()});
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
