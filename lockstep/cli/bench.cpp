// `lockstep bench`: the speed of collectives on this machine, and a check of their results.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/process.h>
#include <lockstep/base/text.h>
#include <lockstep/cli/bench_measure.h>
#include <lockstep/cli/command.h>
#include <lockstep/comm/backends.h>
#include <lockstep/kernels/tuning.h>
#include <lockstep/world/world.h>

#include <fmt/format.h>
#include <torch/torch.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::cli {
namespace {

constexpr const char* kDispatch = "dispatch";

constexpr const char* kBenchFooter =
    "\nStarts WORLD ranks of one thread for each backend in turn (mpi under mpirun), ROUNDS times, and prints the "
    "median of the\nrounds: size, time, algorithm and bus bandwidth, and whether the values were right on every rank.\n"
    "\n"
    "Examples:\n"
    "  lockstep bench all_reduce --backend shm,tcp,mpi --world 2 --sizes 1K,64K,1M,16M,100M --json all_reduce.json\n"
    "  lockstep bench all_gather --backend shm --world 4 --memory ordinary\n"
    "  lockstep bench dispatch --json dispatch.json";

struct BenchArguments {
  std::string op;
  std::vector<std::string> backends{"shm"};
  int world = 2;
  std::vector<std::string> sizes{"1K", "16K", "256K", "4M", "64M"};
  std::string memory = "allocated";
  int rounds = 3;
  std::string json;
  bool worker = false;
};

std::vector<std::string> backends_of_several() {
  std::vector<std::string> names;
  for (const auto& name : detail::backend_choices()) {
    if (name == "auto" || detail::is_for_cuda(name)) continue;
    if (detail::backend_called(name).serves != detail::BackendKind::Serves::one_rank) names.push_back(name);
  }
  return names;
}

BenchRequest request_of(const BenchArguments& arguments) {
  BenchRequest request;
  request.op = arguments.op;
  request.ordinary_memory = arguments.memory == "ordinary";
  for (const std::string& text : arguments.sizes) {
    const auto bytes = parse_bytes(text);
    if (!bytes || *bytes == 0) {
      fail(ErrorKind::invalid_argument, "bench", "--sizes takes numbers of bytes such as 1K, 64K or 16M; got '{}'",
           text);
    }
    request.sizes.push_back(*bytes);
  }
  return request;
}

/// One rank: measures, and rank 0 prints the rows as one line of JSON.
int work(const BenchArguments& arguments) {
  set_num_threads(1);
  GroupOptions options;
  options.backend = arguments.backends.front();
  const Group group = init(options);
  const std::vector<BenchRow> rows = measure(request_of(arguments), group);
  if (group.rank() != 0) return kOk;
  // As it was called, if that is the backend: tls is a word for tcp.
  const bool as_called = &detail::backend_called(options.backend) == &detail::backend_called(group.backend());
  nlohmann::json all = nlohmann::json::array();
  for (const BenchRow& row : rows) {
    all.push_back({{"op", arguments.op},
                   {"backend", as_called ? options.backend : std::string(group.backend())},
                   {"world", group.size()},
                   {"memory", arguments.memory},
                   {"bytes", row.bytes},
                   {"us", row.microseconds},
                   {"algbw_gbs", row.algbw},
                   {"busbw_gbs", row.busbw},
                   {"correct", row.correct}});
  }
  fmt::print("{}\n", all.dump());
  return kOk;
}

std::vector<std::string> worker_command(const BenchArguments& arguments, const std::string& backend) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string world = std::to_string(arguments.world);
  std::vector<std::string> command;
  if (backend == "mpi") {
    command = {"mpirun", "-n", world, "--oversubscribe"};
    if (geteuid() == 0) command.emplace_back("--allow-run-as-root");
  } else {
    command = {self, "run", "--nproc-per-node", world, "--no-prefix"};
  }
  for (const std::string& word :
       {self, std::string("bench"), arguments.op, std::string("--worker"), std::string("--backend"), backend,
        std::string("--sizes"), fmt::format("{}", fmt::join(arguments.sizes, ",")), std::string("--memory"),
        arguments.memory}) {
    command.push_back(word);
  }
  return command;
}

nlohmann::json run_backend(const BenchArguments& arguments, const std::string& backend) {
  ChildOptions child;
  child.arguments = worker_command(arguments, backend);
  child.environment = current_environment();
  child.environment->erase("LOCKSTEP_BACKEND");  // --backend has priority
  const Captured captured = run_and_capture(child, std::chrono::minutes(10));
  const auto start = captured.out.find("[{");
  if (!captured.status.ok() || start == std::string::npos) {
    fail(ErrorKind::io, "bench", "the ranks of backend {} failed ({}):\n{}{}", backend, describe(captured.status),
         captured.out, captured.err);
  }
  return nlohmann::json::parse(captured.out.substr(start, captured.out.find('\n', start) - start));
}

/// The median time of all rounds for each row; its values are correct only if they were correct in every round.
nlohmann::json combine(const std::vector<nlohmann::json>& rounds) {
  nlohmann::json result = rounds.front();
  for (std::size_t i = 0; i < result.size(); ++i) {
    std::vector<nlohmann::json> rows;
    bool correct = true;
    for (const auto& round : rounds) {
      rows.push_back(round[i]);
      correct = correct && round[i]["correct"].get<bool>();
    }
    std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a["us"] < b["us"]; });
    result[i] = rows[rows.size() / 2];
    result[i]["correct"] = correct;
  }
  return result;
}

void print_table(const nlohmann::json& rows) {
  fmt::print("{:<15} {:<8} {:>5} {:>13} {:>12} {:>11} {:>11}  {}\n", "op", "backend", "world", "bytes", "time us",
             "algbw GB/s", "busbw GB/s", "values");
  for (const auto& row : rows) {
    fmt::print("{:<15} {:<8} {:>5} {:>13} {:>12.2f} {:>11.3f} {:>11.3f}  {}\n", row["op"].get<std::string>(),
               row["backend"].get<std::string>(), row["world"].get<int>(), row["bytes"].get<std::int64_t>(),
               row["us"].get<double>(), row["algbw_gbs"].get<double>(), row["busbw_gbs"].get<double>(),
               row["correct"].get<bool>() ? "right" : "WRONG");
  }
}

/// `lockstep bench dispatch`: in this process only.
int bench_dispatch(const BenchArguments& arguments) {
  set_num_threads(1);
  nlohmann::json all = nlohmann::json::array();
  fmt::print("{:<15} {:>12} {:>12} {:>12}\n", "case", "plain ns", "global ns", "difference");
  for (const auto& row : measure_dispatch(init({.backend = "self"}), std::max(arguments.rounds, 5))) {
    fmt::print("{:<15} {:>12.0f} {:>12.0f} {:>12.0f}\n", row.name, row.plain_ns, row.global_ns,
               row.global_ns - row.plain_ns);
    all.push_back({{"case", row.name}, {"plain_ns", row.plain_ns}, {"global_ns", row.global_ns}});
  }
  if (!arguments.json.empty()) write_file_atomically(arguments.json, all.dump(1) + "\n");
  return kOk;
}

int bench(const BenchArguments& arguments) {
  if (arguments.op == kDispatch) return bench_dispatch(arguments);
  request_of(arguments);  // reports errors before any process is started
  if (!arguments.json.empty()) require_writable_file(arguments.json, "--json");
  std::vector<std::vector<nlohmann::json>> rounds(arguments.backends.size());
  for (int round = 0; round < arguments.rounds; ++round) {
    for (std::size_t i = 0; i < arguments.backends.size(); ++i) {
      rounds[i].push_back(run_backend(arguments, arguments.backends[i]));
    }
  }
  nlohmann::json all = nlohmann::json::array();
  for (const auto& of_backend : rounds) {
    for (const auto& row : combine(of_backend)) all.push_back(row);
  }
  print_table(all);
  if (!arguments.json.empty()) write_file_atomically(arguments.json, all.dump(1) + "\n");
  const bool correct =
      std::all_of(all.begin(), all.end(), [](const auto& row) { return row["correct"].template get<bool>(); });
  return correct ? kOk : kFailed;
}

}  // namespace

void add_bench(CLI::App& app, Action& chosen) {
  CLI::App* command =
      app.add_subcommand("bench", "Time a collective and check its values, or time operators on global tensors");
  const auto arguments = std::make_shared<BenchArguments>();
  auto ops = bench_ops();
  ops.emplace_back(kDispatch);
  const auto backends = backends_of_several();
  command
      ->add_option("op", arguments->op, "The collective, or dispatch: operators on global tensors beside ordinary ones")
      ->required()
      ->check(CLI::IsMember(ops));
  command
      ->add_option("--backend", arguments->backends,
                   fmt::format("{}: one or several, with commas between them", fmt::join(backends, ", ")))
      ->delimiter(',')
      ->check(CLI::IsMember(backends))
      ->capture_default_str();
  command->add_option("--world", arguments->world, "How many ranks")->check(CLI::Range(1, 512))->capture_default_str();
  command->add_option("--sizes", arguments->sizes, "Bytes of the tensor on each rank; K, M and G are powers of 1024")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option("--memory", arguments->memory,
                   "allocated: from lockstep::allocate, as gradient buckets are; ordinary: torch's own")
      ->check(CLI::IsMember({"allocated", "ordinary"}))
      ->capture_default_str();
  command->add_option("--rounds", arguments->rounds, "Times each backend is started, in turn")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command->add_option("--json", arguments->json, "Also write the rows to this file")->type_name("FILE");
  command->add_flag("--worker", arguments->worker, "Run as one rank")->group("");
  command->footer(kBenchFooter);
  command->callback(
      [=, &chosen] { chosen = [=] { return arguments->worker ? work(*arguments) : bench(*arguments); }; });
}

}  // namespace lockstep::cli
