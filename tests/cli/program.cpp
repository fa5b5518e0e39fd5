#include "cli/program.h"

#include <lockstep/base/error.h>

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>

namespace lockstep::test {
namespace {

constexpr std::chrono::seconds kProgramLimit(240);  // a limit that only a hang reaches

constexpr const char* kConfig = R"(system:
  work_dir: {0}/out
model:
  name: mlp
  hidden: [16]
data:
  name: cifar10
  root: {0}/data
  batch_size: 10
  train_transforms:
    - rescale: {{scale: 0.00392}}
    - hwc2chw
  eval_transforms:
    - rescale: {{scale: 0.00392}}
    - hwc2chw
optimizer:
  name: momentum
  lr: 0.05
  momentum: 0.9
train:
  epochs: 1
)";

/// 40 pictures to train with and 10 to test with, in CIFAR-10's files.
class SmallDataSet {
 public:
  SmallDataSet() : folder_("lockstep-cli-data"), maker_(::getpid()) {
    const auto made = lockstep({"data", "synthesize", "cifar10", "--out", path(), "--train", "40", "--test", "10"});
    if (!made.status.ok()) fail(ErrorKind::io, "test", "cannot make a data set: {}", made.err);
  }
  SmallDataSet(const SmallDataSet&) = delete;
  SmallDataSet& operator=(const SmallDataSet&) = delete;
  ~SmallDataSet() {
    if (maker_ != ::getpid()) folder_.release();  // a forked process that calls exit()
  }

  std::filesystem::path path() const { return folder_.path() / "data"; }

 private:
  TemporaryFolder folder_;
  pid_t maker_;
};

}  // namespace

Environment plain_environment() {
  Environment environment;
  for (const auto& [name, value] : current_environment()) {
    const bool keep = name == "PATH" || name == "HOME" || name == "LANG" || name == "TMPDIR" ||
                      name == "LD_LIBRARY_PATH" || name.ends_with("SAN_OPTIONS");
    if (keep) environment[name] = value;
  }
  environment.insert_or_assign("OMP_NUM_THREADS", std::string("1"));
  environment.insert_or_assign("LOCKSTEP_VERBOSE", std::string("1"));
  return environment;
}

Environment environment_with(const Environment& more) {
  Environment environment = plain_environment();
  for (const auto& [name, value] : more) environment[name] = value;
  return environment;
}

Captured run_program(Words arguments, const Environment& more) {
  ChildOptions child;
  child.arguments = std::move(arguments);
  child.environment = environment_with(more);
  return run_and_capture(child, kProgramLimit);
}

Captured lockstep(Words arguments, const Environment& more) {
  arguments.insert(arguments.begin(), LOCKSTEP_BINARY);
  return run_program(std::move(arguments), more);
}

Captured under_lockstep_run(int ranks, Words program, const Environment& more) {
  program.insert(program.begin(), {"run", "--nproc-per-node", std::to_string(ranks)});
  return lockstep(std::move(program), more);
}

Captured under_mpirun(int ranks, Words program, const Environment& more) {
  // Open MPI calls itself so, or OpenRTE.
  static const bool open_mpi = run_program({LOCKSTEP_MPIRUN, "--version"}).out.find("Open") != std::string::npos;
  Words command = {LOCKSTEP_MPIRUN, "-n", std::to_string(ranks)};
  if (open_mpi) command.emplace_back("--oversubscribe");
  if (open_mpi && ::geteuid() == 0) command.emplace_back("--allow-run-as-root");
  command.insert(command.end(), program.begin(), program.end());
  return run_program(std::move(command), more);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

Workbench::Workbench() : folder_("lockstep-cli-test") {
  static const SmallDataSet small;  // made once: a process that loads libtorch costs more than all its pictures
  std::filesystem::copy(small.path(), data(), std::filesystem::copy_options::recursive);
  write_file(config(), fmt::format(kConfig, path().string()));
}

Words Workbench::train(Words more) const {
  more.insert(more.begin(), {LOCKSTEP_BINARY, "train", "--config", config()});
  return more;
}

}  // namespace lockstep::test
