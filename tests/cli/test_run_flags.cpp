// The flags of `lockstep run` as words and as variables, apart from any process.
#include <lockstep/base/error.h>
#include <lockstep/cli/program_flags.h>
#include <lockstep/cli/run_line.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>

namespace lockstep::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Words = std::vector<std::string>;

/// A command with some flags of each kind, some of them registered by one spelling and some by two.
struct Command {
  CLI::App app{"about", "run"};
  std::string processes = "1";
  std::string tee = "0";
  std::string log_dir;
  std::string numa;
  std::optional<std::int64_t> node_rank;
  bool module = false;
  bool no_python = false;

  Command() {
    app.add_option("--nproc-per-node", processes);
    app.add_option("-t,--tee", tee);
    app.add_option("--log-dir", log_dir);
    app.add_option("--numa-binding", numa);
    app.add_option("--node-rank,--node_rank", node_rank);
    app.add_flag("-m,--module", module);
    app.add_flag("--no-python", no_python);
  }

  /// Program words; the flags are in the members.
  Words parse(const Words& words, const Environment& environment = {}) {
    RunLine line = read_run_line(app, words);
    defaults = apply_pet_defaults(app, line.given, environment);
    std::reverse(line.flags.begin(), line.flags.end());
    app.parse(line.flags);
    return line.program;
  }

  std::vector<PetDefault> defaults{};
};

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "(no error)";
}

TEST(RunLine, TakesEverySpelling) {
  for (const Words& words : std::vector<Words>{{"--nproc-per-node", "4"},
                                               {"--nproc_per_node", "4"},
                                               {"--nproc-per_node=4"},
                                               {"--nproc_per_node=4"},
                                               {"--nproc=4"},
                                               {"--np", "4"}}) {
    Command command;
    Words all = words;
    all.insert(all.end(), {"prog", "--nproc-per-node", "7"});
    EXPECT_THAT(command.parse(all), ElementsAre("prog", "--nproc-per-node", "7"));
    EXPECT_EQ(command.processes, "4") << words.front();
  }
}

TEST(RunLine, TakesShortFlagsWithTheirValueInAnyPlace) {
  for (const Words& words :
       std::vector<Words>{{"-t", "3"}, {"-t3"}, {"-t=3"}, {"--tee=3"}, {"--tee", "3"}, {"--t", "3"}}) {
    Command command;
    command.parse(words);
    EXPECT_EQ(command.tee, "3") << words.front();
  }
  Command command;
  EXPECT_THAT(command.parse({"-t", "0:3,1:1", "-m", "pack.age", "-m"}), ElementsAre("pack.age", "-m"));
  EXPECT_EQ(command.tee, "0:3,1:1");
  EXPECT_TRUE(command.module);
}

TEST(RunLine, KeepsValuesAsTheyAre) {
  Command command;
  command.parse({"--log-dir=a=b", "--tee", ""});
  EXPECT_EQ(command.log_dir, "a=b");
  EXPECT_EQ(command.tee, "");
  Command dashed;
  dashed.parse({"--log_dir=--odd"});
  EXPECT_EQ(dashed.log_dir, "--odd");
  Command empty;
  empty.log_dir = "x";
  EXPECT_THAT(empty.parse({"--log_dir=", "prog"}), ElementsAre("prog"));
  EXPECT_EQ(empty.log_dir, "");
}

TEST(RunLine, ADoubleDashBeforeTheProgramIsDropped) {
  Command command;
  EXPECT_THAT(command.parse({"--tee", "1", "--", "--odd", "--"}), ElementsAre("--odd", "--"));
  EXPECT_THAT(Command().parse({}), IsEmpty());
}

TEST(RunLine, RefusesWhatIsNoFlagOrCouldBeSeveral) {
  const auto refused = [](const Words& words) { return message_of([&] { Command().parse(words); }); };
  EXPECT_THAT(refused({"--nproc_per_mode=2"}), AllOf(HasSubstr("'--nproc_per_mode'"), HasSubstr("--nproc-per-node")));
  EXPECT_THAT(refused({"--n", "2"}),
              AllOf(HasSubstr("'--n' could be"), HasSubstr("--numa-binding"), HasSubstr("--no-python")));
  for (const char* word : {"-x", "-", "-mx", "--=1"}) EXPECT_NE(refused({word}), "(no error)") << word;
  EXPECT_THAT(refused({"--log-dir"}), HasSubstr("'--log-dir' needs a value"));
  EXPECT_THAT(refused({"--log_dir", "--tee", "3"}), HasSubstr("'--log_dir' needs a value"));
}

TEST(PetDefaults, AreTakenWhereTheCommandLineSaysNothing) {
  const Environment environment = {{"PET_NPROC_PER_NODE", "4"},
                                   {"PET_TEE", "3"},
                                   {"PET_LOG_DIR", "--odd"},
                                   {"PET_NODE_RANK", "1"},
                                   {"PET_UNKNOWN", "here"}};
  Command command;
  command.parse({"--tee", "1"}, environment);
  EXPECT_EQ(command.processes, "4");
  EXPECT_EQ(command.tee, "1");
  EXPECT_EQ(command.log_dir, "--odd");
  EXPECT_EQ(command.node_rank, 1);
  EXPECT_EQ(command.defaults.size(), 3U);
}

TEST(PetDefaults, ASwitchIsOnWhenItsVariableIsANumberOtherThanZero) {
  for (const auto& [value, on] :
       std::map<std::string, bool>{{"1", true}, {"-1", true}, {"2", true}, {"0", false}, {"", false}}) {
    Command command;
    command.parse({}, {{"PET_MODULE", value}});
    EXPECT_EQ(command.module, on) << value;
  }
  for (const char* bad : {"yes", "true", "1.0", " 1"}) {
    EXPECT_THAT(message_of([&] {
                  Command().parse({}, {{"PET_MODULE", bad}});
                }),
                HasSubstr(fmt::format("PET_MODULE={} must be an integer", bad)));
    Command command;
    command.parse({"-m"}, {{"PET_MODULE", bad}});  // the command line wins
    EXPECT_TRUE(command.module);
  }
}

TEST(PetDefaults, EmptyOnesAndThoseOfExemptFlagsCountForNothing) {
  Command command;
  command.parse({}, {{"PET_TEE", ""}, {"PET_NUMA_BINDING", "node"}, {"PET_HELP", "1"}});
  EXPECT_EQ(command.tee, "0");
  EXPECT_EQ(command.numa, "");
  EXPECT_THAT(command.defaults, IsEmpty());
}

TEST(PetDefaults, AMalformedValueNamesItsVariable) {
  Command command;
  const Environment environment = {{"PET_NODE_RANK", "x"}, {"PET_NPROC_PER_NODE", "all"}, {"PET_TEE", "9"}};
  const auto message = message_of([&] { command.parse({}, environment); });
  EXPECT_THAT(name_variables(message, command.defaults), HasSubstr("(from PET_NODE_RANK=x)"));

  const auto named = [&](std::string_view where, std::string_view text) {
    return name_variables(Error(ErrorKind::invalid_argument, where, text), command.defaults).message();
  };
  EXPECT_EQ(named("run", "--tee '9' must be"), "--tee '9' must be (from PET_TEE=9)");
  EXPECT_EQ(named("nproc_per_node", "must be a number"), "must be a number (from PET_NPROC_PER_NODE=all)");
  EXPECT_EQ(named("run", "--node_rank and --tee"), "--node_rank and --tee (from PET_TEE=9, PET_NODE_RANK=x)");
  EXPECT_EQ(named("run", "--node-ranks --tee_all nproc"), "--node-ranks --tee_all nproc");
}

TEST(PetDefaults, HelpNeedsNoVariables) {
  Command command;
  EXPECT_THROW(command.parse({"--help"}, {{"PET_NODE_RANK", "x"}}), CLI::CallForHelp);
}

TEST(ProgramFlags, SayHowTheProgramRuns) {
  using cluster::ProgramKind;
  EXPECT_EQ(program_of({}, LaunchStyle::run, {"p"}).kind, ProgramKind::detect);
  EXPECT_EQ(program_of({.module = true}, LaunchStyle::run, {"p"}).kind, ProgramKind::module);
  EXPECT_EQ(program_of({.no_python = true}, LaunchStyle::run, {"p"}).kind, ProgramKind::executable);
  EXPECT_EQ(program_of({.no_python = true, .run_path = true}, LaunchStyle::run, {"p"}).kind, ProgramKind::script);
  EXPECT_THROW(program_of({.module = true, .no_python = true}, LaunchStyle::run, {"p"}), Error);
  EXPECT_THROW(program_of({.module = true, .run_path = true}, LaunchStyle::run, {"p"}), Error);
  EXPECT_THROW(program_of({}, LaunchStyle::run, {}), Error);
}

TEST(ProgramFlags, OnlyLaunchPassesTheLocalRank) {
  EXPECT_EQ(program_of({}, LaunchStyle::run, {"p.py"}).local_rank_option, "");
  EXPECT_EQ(program_of({}, LaunchStyle::launch, {"p.py"}).local_rank_option, "local-rank");
  EXPECT_EQ(program_of({.module = true}, LaunchStyle::launch, {"p"}).local_rank_option, "local-rank");
  EXPECT_EQ(program_of({.run_path = true}, LaunchStyle::launch, {"p"}).local_rank_option, "local-rank");
  EXPECT_EQ(program_of({.use_env = true}, LaunchStyle::launch, {"p.py"}).local_rank_option, "");
  for (const auto* other : {"p", "sh", "/bin/sh", "python3"}) {
    EXPECT_EQ(program_of({}, LaunchStyle::launch, {other}).local_rank_option, "") << other;
  }
  EXPECT_EQ(program_of({.local_rank_option = "local_rank"}, LaunchStyle::launch, {"p"}).local_rank_option,
            "local_rank");
  EXPECT_THAT(message_of([] { program_of({.no_python = true}, LaunchStyle::launch, {"p"}); }), HasSubstr("--use_env"));
  EXPECT_NO_THROW(program_of({.no_python = true, .use_env = true}, LaunchStyle::launch, {"p"}));
}

TEST(OutputFlags, TellOfRanksThatAreNotHere) {
  OutputFlags flags;
  flags.tee = "0:1,4:3";
  flags.local_ranks_filter = "0,1";
  EXPECT_THAT(missing_ranks(output_of(flags), 2), ElementsAre("--tee names local rank 4, but here they are 0 to 1"));
  EXPECT_THAT(missing_ranks(output_of(flags), 5), IsEmpty());
  flags.role = "";
  EXPECT_THROW(prefix_of(flags, {}), Error);
  flags.role = "a";
  EXPECT_EQ(prefix_of(flags, {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "${rank}:"}}).of(3, 1), "3:");
}

TEST(TorchrunFlags, AreCheckedAndRefusedWhereTheyWouldAskForSomething) {
  for (const char* method : {"spawn", "fork", "forkserver"})
    EXPECT_NO_THROW(check_torchrun_flags({.start_method = method}));
  EXPECT_NO_THROW(check_torchrun_flags({.logs_specs = "default"}));
  const auto refused = [](const TorchrunFlags& flags) { return message_of([&] { check_torchrun_flags(flags); }); };
  EXPECT_THAT(refused({.start_method = "thread"}), HasSubstr("spawn, fork, forkserver"));
  EXPECT_THAT(refused({.event_log_handler = "console"}), HasSubstr("--event_log_handler 'console'"));
  EXPECT_THAT(refused({.logs_specs = "mine"}), HasSubstr("--logs_specs 'mine'"));
  EXPECT_THAT(refused({.numa_binding = "all"}), HasSubstr("node, socket"));
  EXPECT_THAT(refused({.numa_binding = "node"}), HasSubstr("cpunodebind=${local_rank}"));
}

}  // namespace
}  // namespace lockstep::cli
