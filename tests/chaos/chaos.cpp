// Breaks a job at random, again and again, and compares its end with that of a job that nobody touched.
//
//     lockstep_chaos SEED [SECONDS [WORKERS]]
//
// The seed decides what is broken, in which order, and how long after each other; when in a step that hits is left to
// the machine. LOCKSTEP_BACKEND chooses the backend.
#include "cli/supervised_job.h"

#include <lockstep/base/error.h>
#include <lockstep/base/parse.h>
#include <lockstep/base/temporary_folder.h>

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <random>
#include <thread>

namespace lockstep::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Order {
  std::uint64_t seed = 0;
  int seconds = 60;  ///< of breaking; the job then ends in peace
  int workers = 8;
};

Words keys_of(int workers, std::int64_t epochs) {
  return {fmt::format("data.batch_size={}", std::max(1, 40 / workers)),
          fmt::format("train.epochs={}", epochs),
          "train.eval_every=50",
          "callbacks.loss_every=0",
          "checkpoint.every_epochs=0",
          "checkpoint.every_steps=40"};
}

struct Peace {
  std::string hash;
  double seconds = 0;  ///< in all, start-up included
};

Peace undisturbed(const Order& order, std::int64_t epochs) {
  const Workbench bench;
  ChildOptions child;
  child.arguments = bench.train(keys_of(order.workers, epochs));
  child.arguments.insert(child.arguments.begin(),
                         {LOCKSTEP_BINARY, "run", "--nproc-per-node", std::to_string(order.workers)});
  child.environment = environment_with({});
  const auto start = Clock::now();
  const auto ran = run_and_capture(child, std::chrono::seconds(300 + 10 * order.seconds));
  if (!ran.status.ok()) fail(ErrorKind::io, "chaos", "the undisturbed run failed: {}", ran.err);
  return {hash_in(bench.work_dir()), std::chrono::duration<double>(Clock::now() - start).count()};
}

class Chaos {
 public:
  Chaos(SupervisedJob& job, const Order& order) : job_(job), random_(order.seed), seconds_(order.seconds) {}

  /// True once the job has ended well.
  bool wreak() {
    const auto end = start_ + std::chrono::seconds(seconds_);
    while (Clock::now() < end) {
      if (rest(milliseconds(300 + pick(4000)))) return true;
      strike();
    }
    return job_.tend_to_the_end(std::chrono::seconds(300 + 10 * seconds_));
  }
  int strikes() const { return strikes_; }

 private:
  int pick(int below) { return static_cast<int>(random_() % static_cast<std::uint64_t>(below)); }
  int some_worker() { return pick(job_.workers()); }

  void say(const std::string& what) {
    ++strikes_;
    fmt::print("{:7.1f} s  {}\n", std::chrono::duration<double>(Clock::now() - start_).count(), what);
    std::fflush(stdout);
  }

  bool rest(milliseconds time) {
    const auto until = Clock::now() + time;
    while (Clock::now() < until) {
      if (job_.tend()) return true;
      std::this_thread::sleep_for(milliseconds(10));
    }
    return false;
  }

  void kill(int worker) {
    const bool hit = job_.signal_worker(worker, SIGKILL);
    say(fmt::format("kill worker {}{}", worker, hit ? "" : " (which is not there)"));
  }

  // Shorter than MS_NODE_TIMEOUT nobody minds; a manager kills what has hung for longer.
  void stop(int worker) {
    const auto time = milliseconds(200 + pick(3000));
    const bool goes_on = pick(2) == 0;
    job_.signal_worker(worker, SIGSTOP);
    say(fmt::format("stop worker {} for {:.1f} s{}", worker, static_cast<double>(time.count()) / 1000,
                    goes_on ? "" : ", then kill it"));
    rest(time);
    job_.signal_worker(worker, goes_on ? SIGCONT : SIGKILL);
  }

  void strike() {
    switch (pick(8)) {
      case 0: say("kill the scheduler"); return job_.kill_scheduler();
      case 1: kill(some_worker()); return kill(some_worker());
      case 2: return stop(some_worker());
      case 3:
        if (pick(3) != 0) break;
        for (int worker = 0; worker < job_.workers(); ++worker) kill(worker);
        return;
      default: break;
    }
    kill(some_worker());
  }

  SupervisedJob& job_;
  std::mt19937_64 random_;
  int seconds_;
  int strikes_ = 0;
  Clock::time_point start_ = Clock::now();
};

int number(const char* text, int low, int high, const char* what) {
  const auto value = parse_integer(text);
  if (!value || *value < low || *value > high) {
    fail(ErrorKind::invalid_argument, "chaos", "{} must be from {} to {}, not '{}'", what, low, high, text);
  }
  return static_cast<int>(*value);
}

Order parse(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.size() > 3) {
    fail(ErrorKind::invalid_argument, "chaos", "usage: chaos SEED [SECONDS [WORKERS]]");
  }
  Order order;
  order.seed = static_cast<std::uint64_t>(number(arguments[0].c_str(), 0, 1'000'000'000, "SEED"));
  if (arguments.size() > 1) order.seconds = number(arguments[1].c_str(), 1, 100'000, "SECONDS");
  if (arguments.size() > 2) order.workers = number(arguments[2].c_str(), 2, 20, "WORKERS");
  return order;
}

int run(const Order& order) {
  fmt::print("chaos: seed {}, {} s, {} workers\n", order.seed, order.seconds, order.workers);
  // As many epochs as take about half the time in peace.
  constexpr std::int64_t kSample = 100;
  const double epochs_per_s = static_cast<double>(kSample) / undisturbed(order, kSample).seconds;
  const auto epochs = std::max(kSample, static_cast<std::int64_t>(epochs_per_s * order.seconds / 2));
  const auto expected = undisturbed(order, epochs).hash;
  const Workbench bench;
  SupervisedJob job(bench.path() / "logs", bench.train(keys_of(order.workers, epochs)), order.workers,
                    {{"MS_NODE_TIMEOUT", "10"}, {"LOCKSTEP_TIMEOUT_S", "60"}, {"LOCKSTEP_HANG_TIMEOUT_S", "60"}});
  job.start_all();
  Chaos chaos(job, order);
  const bool ended = chaos.wreak();
  const auto hash = hash_in(bench.work_dir());
  fmt::print("{} strikes, {} workers started again\n", chaos.strikes(), job.restarts());
  if (ended && hash == expected) {
    fmt::print("the end is that of the undisturbed run: {}\n", hash);
    return 0;
  }
  fmt::print("{}: {} instead of {}\n{}\n", ended ? "ANOTHER END" : "NO END", hash.empty() ? "no result" : hash,
             expected, job.last_words());
  return 1;
}

}  // namespace
}  // namespace lockstep::test

int main(int count, char** words) {
  try {
    return lockstep::test::run(lockstep::test::parse({words + 1, words + count}));
  } catch (const std::exception& error) {
    fmt::print(stderr, "chaos: {}\n", error.what());
    return 2;
  }
}
