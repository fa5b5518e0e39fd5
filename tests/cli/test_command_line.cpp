// What every command has in common: help, versions, mistakes.
#include "cli/program.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace lockstep::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(CommandLine, HelpShowsHowToBegin) {
  const auto ran = lockstep({"--help"});
  EXPECT_TRUE(ran.status.ok());
  for (const char* words :
       {"lockstep run --nproc-per-node 2 lockstep train", "mpirun -n 2", "train", "run", "data", "info"}) {
    EXPECT_THAT(ran.out, HasSubstr(words));
  }
  EXPECT_EQ(ran.err, "");
}

TEST(CommandLine, EachCommandExplainsItselfWithExamples) {
  const std::vector<Words> commands = {{"train"},      {"run"},    {"launch"},
                                       {"rank-table"}, {"doctor"}, {"data", "synthesize"}};
  for (Words command : commands) {
    command.emplace_back("--help");
    const auto ran = lockstep(command);
    EXPECT_TRUE(ran.status.ok()) << command[0];
    EXPECT_THAT(ran.out, HasSubstr("Example"));
    for (const auto& line : lines_of(ran.out)) EXPECT_LE(line.size(), 124u) << line;
  }
}

TEST(CommandLine, VersionAndInfo) {
  EXPECT_EQ(lockstep({"--version"}).out, "lockstep " LOCKSTEP_VERSION "\n");
  const auto info = lockstep({"info"});
  for (const char* words : {"libtorch", "self, shm", "open_mpi", "CPUs"}) EXPECT_THAT(info.out, HasSubstr(words));
  for (const char* folder : {"configs", "examples", "docs"}) {
    EXPECT_THAT(info.out, HasSubstr(fmt::format("{:<10} {}/{}\n", folder, LOCKSTEP_SOURCE_DIR, folder)));
  }
  // All that a configuration can name.
  for (const auto& [title, kind] : {std::pair{"models     ", "models"}, std::pair{"data sets  ", "data"}}) {
    const auto listed = lines_of(lockstep({"train", "--list", kind}).out);
    EXPECT_GT(listed.size(), 7U);
    std::string names;
    for (const auto& line : listed) names += (names.empty() ? "" : ", ") + line.substr(0, line.find(' '));
    EXPECT_THAT(info.out, HasSubstr(title + names + "\n"));
  }
}

/// What bash completes, and what the manual lists, are the commands that there are.
TEST(CommandLine, CompletionAndManualKnowAllCommands) {
  const auto script = read_file(LOCKSTEP_SOURCE_DIR "/deploy/shell/lockstep.bash");
  const auto manual = read_file(LOCKSTEP_SOURCE_DIR "/deploy/man/lockstep.1");
  const auto help = lockstep({"--help"}).out;
  std::istringstream lines(help.substr(help.find("Subcommands:")));
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  ") || line.size() < 3 || line[2] == ' ') continue;
    const auto command = line.substr(2, line.find(' ', 2) - 2);
    ++count;
    EXPECT_THAT(script.substr(0, script.find("local current")), testing::ContainsRegex("[ \"]" + command + "[ \"\n]"));
    auto name = command;
    for (auto at = name.find('-'); at != std::string::npos; at = name.find('-', at + 2)) name.replace(at, 1, "\\-");
    EXPECT_THAT(manual, HasSubstr(".B " + name + "\n")) << command;
  }
  EXPECT_GT(count, 10u);
}

TEST(CommandLine, MistakesAreOneLineAndExitCodeTwo) {
  const auto expect_usage_error = [](const Words& arguments, const std::string& words) {
    const auto ran = lockstep(arguments);
    EXPECT_EQ(ran.status, (ExitStatus{2, 0})) << words;
    EXPECT_EQ(ran.out, "");
    EXPECT_THAT(ran.err, StartsWith("lockstep: error: "));
    EXPECT_THAT(ran.err, HasSubstr(words));
    EXPECT_EQ(lines_of(ran.err).size(), 1u) << ran.err;
  };
  expect_usage_error({}, "see 'lockstep --help'");
  expect_usage_error({"trian"}, "there is no command 'trian'; did you mean 'train'?");
  expect_usage_error({"train", "--confg", "x.yaml"}, "see 'lockstep train --help'");
  expect_usage_error({"train", "--confg", "x.yaml"}, "; did you mean '--config'?");
  expect_usage_error({"eval", "--jsn=x"}, "; did you mean '--json'?");
  expect_usage_error({"calibrate", "--ot", "x.yaml"}, "; did you mean '--out'?");  // and not that --out is required
  expect_usage_error({"train"}, "--config FILE is missing");
  expect_usage_error({"run"}, "no PROGRAM given");
  expect_usage_error({"run", "--nproc-per-mode", "2", "true"}, "did you mean '--nproc-per-node'");
  expect_usage_error({"run", "--nproc-per-node", "two", "true"}, "'two'");
  expect_usage_error({"run", "--grace", "-1", "true"}, "'-1'");
  expect_usage_error({"run", "--nnodes", "two", "true"}, "--nnodes 'two'");
  expect_usage_error({"run", "--nnodes", "2", "true"}, "--nnodes 2 needs --node_rank");
  expect_usage_error({"run", "--nnodes=2", "--node_rank=2", "true"}, "--node_rank 2 must be from 0 to 1");
  expect_usage_error({"run", "--nnodes=2", "--node_rank=1", "true"}, "needs --master_addr");
  expect_usage_error({"run", "--nnodes=2", "--node_rank=1", "--rdzv_conf=is_host=1", "true"}, "contradicts");
  expect_usage_error({"run", "--nnodes=2", "--node_rank=1", "--master_addr=198.51.100.7", "true"},
                     "LOCKSTEP_ALLOW_INSECURE=1");
  expect_usage_error({"run", "--rdzv_conf=last=1", "true"}, "'last=1'");
  expect_usage_error({"run", "--rdzv_backend=zeus", "true"}, "there are static, c10d and etcd");
  expect_usage_error({"run", "--rdzv_endpoint=:5", "true"}, "HOST:PORT");
  expect_usage_error({"run", "--master_port=0", "true"}, "--master_port 0");
  expect_usage_error({"run", "--master_port=5", "--rdzv_endpoint=h:5", "true"}, "one of them");
  expect_usage_error({"run", "--nodes", "127.0.0.2,192.0.2.1", "true"}, "need ctrl_port");
  expect_usage_error({"run", "--nodes", "127.0.0.2", "--node_rank", "0", "true"}, "leave out --nnodes, --node_rank");
  expect_usage_error({"data"}, "see 'lockstep data --help'");
  expect_usage_error({"data", "synthesize", "cifar11", "--out", "/tmp/x"}, "cifar10");
  expect_usage_error({"data", "synthesize", "cifar10", "--out", "/tmp/x", "--train", "1e3"}, "'1e3'");
}

}  // namespace
}  // namespace lockstep::test
