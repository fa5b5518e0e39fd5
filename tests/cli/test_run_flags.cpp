// The flags of `lockstep run` as words and as variables, apart from any process.
#include <lockstep/base/error.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/cli/node_flags.h>
#include <lockstep/cli/run_arguments.h>
#include <lockstep/cli/run_line.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
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

/// The flags of the live page, and one more.
struct PageCommand {
  CLI::App app{"about", "run"};
  PageFlags flags;
  bool module = false;

  PageCommand() {
    add_page_flags(app, flags);
    app.add_flag("-m,--module", module);
  }

  Words parse(const Words& words, const Environment& environment = {}) {
    RunLine line = read_run_line(app, words);
    apply_pet_defaults(app, line.given, environment);
    std::reverse(line.flags.begin(), line.flags.end());
    app.parse(line.flags);
    return line.program;
  }
};

TEST(PageFlags, TakeAPortAHostAndAPortOrNothing) {
  struct Case {
    Words words;
    std::string host;
    int port = 0;
  };
  for (const auto& [words, host, port] : std::vector<Case>{{{"--dashboard", "p", "8080"}, "127.0.0.1", 0},
                                                           {{"--dashboard", "0", "p", "8080"}, "127.0.0.1", 0},
                                                           {{"--dashboard", "8080", "p", "8080"}, "127.0.0.1", 8080},
                                                           {{"--dashboard=8080", "p", "8080"}, "127.0.0.1", 8080},
                                                           {{"--dashboard", "node:80", "p", "8080"}, "node", 80},
                                                           {{"--dashboard=[::1]:80", "p", "8080"}, "::1", 80},
                                                           {{"--dashboard", "-m", "p", "8080"}, "127.0.0.1", 0},
                                                           {{"--dashboard", "--", "p", "8080"}, "127.0.0.1", 0}}) {
    PageCommand command;
    EXPECT_THAT(command.parse(words), ElementsAre("p", "8080"));
    const auto page = page_of(command.flags);
    ASSERT_TRUE(page) << words.at(0);
    EXPECT_EQ(page->address.host, host);
    EXPECT_EQ(page->address.port, port);
    EXPECT_FALSE(page->can_kill);
  }
}

TEST(PageFlags, AreOffUnlessTheyAreGiven) {
  PageCommand command;
  command.parse({"p"});
  EXPECT_FALSE(page_of(command.flags));
  PageCommand by_variable;
  by_variable.parse({"p"}, {{"PET_DASHBOARD", "8080"}, {"PET_DASHBOARD_KILL", "1"}});
  EXPECT_EQ(page_of(by_variable.flags)->address.port, 8080);
  EXPECT_TRUE(page_of(by_variable.flags)->can_kill);
}

TEST(PageFlags, RefuseOtherAddresses) {
  for (const char* text : {"65536", "-1", "x", "a:", ":80", "a:b", "a b:80", "::1:80", "[]:80", "[::1]", "1e3", "+80",
                           "http://a:80", "80/"}) {
    EXPECT_THAT(message_of([&] { page_of({.address = text}); }),
                AllOf(HasSubstr("--dashboard"), HasSubstr("from 0 to 65535")))
        << text;
  }
  EXPECT_THAT(message_of([&] { page_of({.can_kill = true}); }), HasSubstr("--dashboard-kill"));
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

/// "processes nodes rank addr:port backend endpoint" after msrun's flags, given as flags of `lockstep run`.
std::string after_msrun(const Words& words) {
  CLI::App app{"about", "run"};
  NodeFlags nodes;
  MsrunFlags msrun;
  std::string processes;
  add_node_flags(app, nodes);
  add_msrun_flags(app, msrun);
  app.add_option("--nproc-per-node", processes);
  RunLine line = read_run_line(app, words);
  std::reverse(line.flags.begin(), line.flags.end());
  app.parse(line.flags);
  apply_msrun_flags(msrun, nodes, processes);
  std::string text = processes + " ranks, " + nodes.nnodes + " nodes";
  if (nodes.node_rank) text += ", node " + std::to_string(*nodes.node_rank);
  if (nodes.master_addr) text += ", at " + *nodes.master_addr + ":" + std::to_string(nodes.master_port.value_or(0));
  if (!nodes.rdzv_endpoint.empty()) text += ", " + nodes.rdzv_backend + " at " + nodes.rdzv_endpoint;
  if (!nodes.rdzv_conf.empty()) text += ", " + nodes.rdzv_conf;
  return text;
}

TEST(MsrunFlags, SayWhatOurOwnFlagsSay) {
  const std::vector<std::pair<Words, std::string>> cases = {
      {{"--worker_num", "2", "--local_worker_num", "2"}, "2 ranks, 1 nodes"},
      {{"--worker_num=8", "--local_worker_num=8", "--master_addr=127.0.0.1", "--master_port=8118", "--node_rank=0",
        "--join=True", "--cluster_time_out=300", "--bind_core=False"},
       "8 ranks, 1 nodes, join_timeout=300"},
      {{"--worker_num=8", "--local_worker_num=4", "--node_rank=1", "--master_addr=10.0.0.1", "--master_port=9000"},
       "4 ranks, 2 nodes, node 1, at 10.0.0.1:9000"},
      {{"--worker_num=8", "--local_worker_num=4", "--node_rank=0", "--master_addr=10.0.0.1"},
       "4 ranks, 2 nodes, node 0, at 10.0.0.1:8118"},
      {{"--worker_num=8", "--local_worker_num=4", "--master_addr=10.0.0.1", "--cluster_time_out=-1"},
       "4 ranks, 2 nodes, c10d at 10.0.0.1:8118, join_timeout=86400"},
      {{"--worker_num=8", "--local_worker_num=4", "--node_rank=-1", "--master_addr=h"},
       "4 ranks, 2 nodes, c10d at h:8118"},
      {{"--worker_num=4"}, "4 ranks, 1 nodes"},
  };
  for (const auto& [words, text] : cases) EXPECT_EQ(after_msrun(words), text) << testing::PrintToString(words);
}

TEST(MsrunFlags, AreRefusedWhereTheyCannotBe) {
  const std::vector<std::pair<Words, std::string>> cases = {
      {{"--worker_num=4", "--local_worker_num=8"}, "--worker_num 4 must be a multiple of --local_worker_num 8"},
      {{"--worker_num=6", "--local_worker_num=4"}, "must be a multiple"},
      {{"--worker_num=0"}, "above 0"},
      {{"--worker_num=4", "--local_worker_num=2"}, "2 nodes, which need --master_addr"},
      {{"--worker_num=4", "--nproc-per-node=4"}, "leave out --nproc_per_node"},
      {{"--worker_num=4", "--nnodes=2"}, "leave out --nproc_per_node, --nnodes"},
      {{"--join=true"}, "--join true must be True or False"},
      {{"--bind_core=yes"}, "--bind_core yes must be True or False"},
      {{"--cluster_time_out=soon"}, "--cluster_time_out soon must be a number of seconds"},
  };
  for (const auto& [words, text] : cases) {
    EXPECT_THAT(message_of([&, w = words] { after_msrun(w); }), HasSubstr(text));
  }
  MsrunFlags flags;
  flags.join = "False";
  flags.bind_core = "True";
  EXPECT_THAT(remarks_on_msrun(flags), testing::SizeIs(2));
  flags.join = "True";
  flags.bind_core = "False";
  EXPECT_THAT(remarks_on_msrun(flags), IsEmpty());
}

/// The same after --hosts and --hostfile, on the node that LOCKSTEP_NODE_ADDR names.
std::string after_hosts(NodeFlags nodes, std::string processes, Environment environment) {
  apply_hosts(nodes, processes, environment);
  std::string text = processes + " ranks, " + nodes.nnodes + " nodes";
  if (nodes.node_rank) text += ", node " + std::to_string(*nodes.node_rank);
  return text + (nodes.master_addr ? ", at " + *nodes.master_addr : "");
}

TEST(Hosts, SayHowManyNodesThereAreAndWhichThisIs) {
  const TemporaryFolder folder("hosts");
  const auto file = (folder.path() / "hostfile").string();
  std::ofstream(file) << "127.0.0.2 slots=1\n127.0.0.3 slots=2\n";
  const auto second = Environment{{"LOCKSTEP_NODE_ADDR", "127.0.0.3"}};
  NodeFlags flags;
  EXPECT_EQ(after_hosts(flags, "", second), " ranks, 1 nodes");
  flags.hostfile = file;
  EXPECT_EQ(after_hosts(flags, "", second), "2 ranks, 2 nodes, node 1, at 127.0.0.2");
  EXPECT_EQ(after_hosts(flags, "4", second), "4 ranks, 2 nodes, node 1, at 127.0.0.2");
  flags.hostfile.clear();
  flags.hosts = "127.0.0.2:3,127.0.0.3:2";
  EXPECT_EQ(after_hosts(flags, "", second), "2 ranks, 2 nodes, node 1, at 127.0.0.2");
  flags.hosts = "localhost:2";
  EXPECT_EQ(after_hosts(flags, "", {}), "2 ranks, 1 nodes");
  flags.hosts = "auto";
  EXPECT_EQ(after_hosts(flags, "", {{"PBS_NODEFILE", file}, {"LOCKSTEP_NODE_ADDR", "127.0.0.2"}}),
            "1 ranks, 2 nodes, node 0, at 127.0.0.2");
}

TEST(Hosts, AreRefusedWhereTheyCannotBe) {
  const auto refused = [](const NodeFlags& flags, const Environment& environment = {}) {
    return message_of([&] { after_hosts(flags, "", environment); });
  };
  NodeFlags flags;
  flags.hosts = "auto";
  EXPECT_THAT(refused(flags), AllOf(HasSubstr("no batch system"), HasSubstr("--hostfile")));
  flags.hosts = "203.0.113.5:2,203.0.113.6:2";
  EXPECT_THAT(refused(flags), HasSubstr("none of the nodes 203.0.113.5, 203.0.113.6"));
  flags.nnodes = "2";
  EXPECT_THAT(refused(flags), HasSubstr("leave out --nodes, --nnodes"));
  flags = {};
  flags.hostfile = "/none";
  EXPECT_THAT(refused(flags), AllOf(HasSubstr("/none"), HasSubstr("No such file")));
  flags.hosts = "a";
  EXPECT_THAT(refused(flags), HasSubstr("give one of them"));
}

TEST(NodeFlags, AnEndpointMayBeAnIpv6AddressWithoutBrackets) {
  const auto read = [](const std::string& endpoint) {
    NodeFlags flags;
    flags.rdzv_endpoint = endpoint;
    const auto place = *endpoint_of(flags, 29400);
    return place.host + " " + std::to_string(place.port);
  };
  EXPECT_EQ(read("node0"), "node0 29400");
  EXPECT_EQ(read("[fe80::1]:29500"), "fe80::1 29500");
  EXPECT_EQ(read("[fe80::1]"), "fe80::1 29400");
  EXPECT_EQ(read("fe80::1:29500"), "fe80::1 29500") << "as torchrun reads it";
}

TEST(NodeFlags, PortZeroIsAnyPortOfOneNode) {
  NodeFlags flags;
  flags.rdzv_backend = "c10d";
  flags.rdzv_endpoint = "localhost:0";
  EXPECT_TRUE(is_one_node(flags));
  EXPECT_FALSE(needs_agent(flags));
  EXPECT_FALSE(first_rank_of(flags, 2, {}));
  flags.nnodes = "2";
  EXPECT_THAT(message_of([&] { needs_agent(flags); }),
              AllOf(HasSubstr("localhost:0"), HasSubstr("--nnodes is 2"), HasSubstr("a job of its own")));
}

TEST(TorchrunFlags, EachRankHasADeviceOfItsOwn) {
  TorchrunFlags flags;
  flags.virtual_local_rank = true;
  check_virtual_local_rank(flags, 2, {});
  check_virtual_local_rank(flags, 2, {{"CUDA_VISIBLE_DEVICES", "3,5"}});
  EXPECT_THAT(message_of([&] {
                check_virtual_local_rank(flags, 3, {{"CUDA_VISIBLE_DEVICES", "3,5"}});
              }),
              HasSubstr("CUDA_VISIBLE_DEVICES=3,5 has 2 for 3 ranks"));
}

}  // namespace
}  // namespace lockstep::cli
