// `lockstep run` on several nodes that come, fail and go: real launchers on this machine, rendezvous at one endpoint.
#include <lockstep/base/temporary_folder.h>

#include "cli/elastic_nodes.h"
#include "cli/two_nodes.h"
#include "cluster/probe.h"
#include "support/port.h"
#include "support/raw_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <thread>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

const ExitStatus kWell{0, 0};

TEST(Elastic, TwoNodesMeetAndEndWell) {
  const Rendezvous rendezvous;
  Agent first(rendezvous, {"--nnodes=2", "--nproc_per_node=2"}, {"env=RANK", "env=GROUP_RANK", "env=WORLD_SIZE"});
  Agent second(rendezvous, {"--nnodes=2", "--nproc_per_node=2"}, {"env=RANK", "env=GROUP_RANK", "env=WORLD_SIZE"});
  EXPECT_EQ(first.wait(), kWell) << first.said();
  EXPECT_EQ(second.wait(), kWell) << second.said();
  const std::string both = first.said() + second.said();
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(both, HasSubstr(fmt::format("[rank {0}] RANK={0}\n", rank)));
    EXPECT_THAT(both, HasSubstr(fmt::format("[rank {}] GROUP_RANK={}\n", rank, rank / 2)));
  }
  EXPECT_THAT(both, AllOf(HasSubstr("WORLD_SIZE=4"), HasSubstr("this is node 1 of 2, with ranks 2 to 3 of 4")));
}

TEST(Elastic, ALateNodeJoinsAndALostOneIsDoneWithout) {
  const std::string pace = ",last_call_timeout=0.5,keep_alive_interval=0.5,keep_alive_max_attempt=10";
  const Rendezvous rendezvous("is_host=1" + pace);
  const auto guest = Rendezvous::at(rendezvous.port(), "is_host=0" + pace);
  const Words flags = {"--nnodes=2:3", "--max_restarts=0"};
  const Words ranks = {"env=WORLD_SIZE", "env=TORCHELASTIC_RESTART_COUNT", "sleep_ms=60000"};
  Agent first(rendezvous, flags, ranks);
  Agent second(guest, flags, ranks);
  ASSERT_TRUE(first.says("WORLD_SIZE=2"));
  ASSERT_TRUE(second.says("WORLD_SIZE=2"));
  Agent third(guest, flags, ranks);
  for (auto* agent : {&first, &second, &third}) ASSERT_TRUE(agent->says("WORLD_SIZE=3")) << agent->said();
  EXPECT_THAT(first.said(), HasSubstr("the ranks were stopped: "));
  third.kill(SIGKILL);
  for (auto* agent : {&first, &second}) {
    ASSERT_TRUE(agent->says("was lost: no heartbeat for 5.0 s")) << agent->said();
    ASSERT_TRUE(agent->says("WORLD_SIZE=2", 2)) << agent->said();
    EXPECT_THAT(agent->said(), Not(HasSubstr("TORCHELASTIC_RESTART_COUNT=1")));
  }
  // Below the least number, with nobody to come.
  second.kill(SIGTERM);
  EXPECT_EQ(second.wait(), (ExitStatus{143, 0})) << second.said();
  ASSERT_TRUE(first.says("left (ended by SIGTERM)")) << first.said();
  first.kill(SIGTERM);
  EXPECT_EQ(first.wait(), (ExitStatus{143, 0})) << first.said();
}

TEST(Elastic, TheStatusOfALaunchersJobIsAtItsEndpoint) {
  const Rendezvous rendezvous("last_call_timeout=0.2");
  Agent first(rendezvous, {"--nnodes=1:2", "--rdzv_id=seen"}, {"print=ready", "sleep_ms=60000"});
  ASSERT_TRUE(first.says("ready")) << first.said();
  const auto endpoint = "127.0.0.1:" + rendezvous.port();
  const auto table = lockstep({"status", "--rdzv-endpoint", endpoint});
  EXPECT_TRUE(table.status.ok()) << table.err;
  EXPECT_THAT(table.out, AllOf(HasSubstr("job seen: running, round 1, 1 node(s), 1 rank(s), 0 of 0 restart(s)"),
                               HasSubstr("last decisions:"), HasSubstr("round 1 begins on 1 nodes with 1 ranks")));
  const auto status = nlohmann::json::parse(lockstep({"status", "--json", "--rdzv-endpoint", endpoint}).out);
  EXPECT_EQ(status["service"], "launchers");
  EXPECT_EQ(status["jobs"][0]["launchers"][0]["state"], "running");
  first.kill(SIGTERM);
  EXPECT_EQ(first.wait(), (ExitStatus{143, 0}));
  const auto nobody = lockstep({"status", "--rdzv-endpoint", endpoint});
  EXPECT_EQ(nobody.status, (ExitStatus{1, 0}));
  EXPECT_THAT(nobody.err, HasSubstr("no answer at " + endpoint));
}

TEST(Elastic, TooFewNodesAreAClearEnd) {
  const Rendezvous rendezvous("join_timeout=1,keep_alive_interval=0.5");
  Agent alone(rendezvous, {"--nnodes=2"}, {"print=never"});
  EXPECT_EQ(alone.wait(), (ExitStatus{1, 0}));
  EXPECT_THAT(alone.said(),
              AllOf(HasSubstr("only 1 of at least 2 nodes joined within 1.0 s"), Not(HasSubstr("never"))));
}

TEST(Elastic, AWrongEndpointIsAClearEnd) {
  Rendezvous rendezvous("join_timeout=1,is_host=0");
  Agent alone(rendezvous, {"--nnodes=2"}, {"print=never"});
  EXPECT_EQ(alone.wait(), (ExitStatus{1, 0}));
  EXPECT_THAT(alone.said(), AllOf(HasSubstr("cannot reach the job's service at 127.0.0.1:" + rendezvous.port()),
                                  HasSubstr("Connection refused")));
}

TEST(Elastic, AnEndpointOfAnotherProgramIsNamedAsThat) {
  const RawServer other([](int connection) {
    while (!read_some(connection).empty()) {
    }
  });
  const auto endpoint = "127.0.0.1:" + std::to_string(other.port());
  const Words words = {LOCKSTEP_BINARY,
                       "run",
                       "--nnodes",
                       "1:2",
                       "--rdzv-backend",
                       "c10d",
                       "--rdzv-endpoint",
                       endpoint,
                       "--rdzv-conf",
                       "is_host=0,read_timeout=2,join_timeout=5",
                       "true"};
  const auto ran = run_program(words);
  EXPECT_EQ(ran.status, (ExitStatus{1, 0}));
  EXPECT_THAT(ran.err,
              AllOf(HasSubstr(endpoint), HasSubstr("another program"), Not(HasSubstr("the launcher that holds it"))));
}

TEST(Elastic, RestartsAreCountedOnceForTheJob) {
  const Rendezvous rendezvous;
  const TemporaryFolder folder;
  const auto sign = [&](const char* name) { return (folder.path() / name).string(); };
  const Words flags = {"--nnodes=2", "--max_restarts=2"};
  // Rank 1 fails in the first attempt, rank 0 in the second, on another node, when the other is there.
  const Words ranks = {"env=TORCHELASTIC_RESTART_COUNT",
                       "0@0:make=" + sign("rank 0"),
                       "0@0:sleep_ms=60000",
                       "1@0:await=" + sign("rank 0"),
                       "1@0:exit=4",
                       "1@1:make=" + sign("rank 1"),
                       "1@1:sleep_ms=60000",
                       "0@1:await=" + sign("rank 1"),
                       "0@1:kill_self=9",
                       "print=third attempt"};
  Agent first(rendezvous, flags, ranks);
  Agent second(rendezvous, flags, ranks);
  for (auto* agent : {&first, &second}) {
    EXPECT_EQ(agent->wait(), kWell) << agent->said();
    EXPECT_THAT(agent->said(), AllOf(HasSubstr("TORCHELASTIC_RESTART_COUNT=2"), HasSubstr("third attempt")));
    EXPECT_THAT(agent->said(), AllOf(HasSubstr("failed first"), HasSubstr("exit code 4"), HasSubstr("restart 1 of 2")));
    EXPECT_THAT(agent->said(), AllOf(HasSubstr("signal 9 (SIGKILL)"), HasSubstr("restart 2 of 2")));
  }
}

TEST(Elastic, TheReportIsOnEveryScreen) {
  const Rendezvous rendezvous;
  const Words ranks = {"0:sleep_ms=60000", "1:error=it broke", "1:exit=3"};
  Agent first(rendezvous, {"--nnodes=2"}, ranks);
  Agent second(rendezvous, {"--nnodes=2"}, ranks);
  for (auto* agent : {&first, &second}) {
    EXPECT_EQ(agent->wait(), (ExitStatus{3, 0}));
    EXPECT_THAT(agent->said(), AllOf(HasSubstr("lockstep run: rank 1 (pid "), HasSubstr("failed first"),
                                     HasSubstr("exit code 3"), HasSubstr("    it broke\n"), HasSubstr("rank 0 (pid ")));
  }
}

TEST(Elastic, AProgramThatIsNotThereEndsTheJob) {
  const Rendezvous rendezvous;
  Agent first(rendezvous, {"--nnodes=2", "--max_restarts=5"}, {"sleep_ms=60000"});
  Agent second(rendezvous, {"--nnodes=2", "--max_restarts=5"}, {}, "no-such-program");
  for (auto* agent : {&first, &second}) {
    EXPECT_EQ(agent->wait(), (ExitStatus{1, 0}));
    EXPECT_THAT(agent->said(), HasSubstr("'no-such-program'"));
  }
}

TEST(Elastic, WithTheLauncherOfItsServiceTheJobEndsSoonAndSaysWhatWouldHaveSurvived) {
  const Rendezvous rendezvous("is_host=1");
  Probe probe;
  Agent host(rendezvous, {"--nnodes=1:2"}, {"print=ready", "sleep_ms=60000"});
  Agent other(Rendezvous::at(rendezvous.port(), "is_host=0"), {"--nnodes=1:2"}, {"print=ready", "sleep_ms=60000"});
  ASSERT_TRUE(other.says("ready")) << other.said();
  host.kill(SIGKILL);
  EXPECT_EQ(other.wait(), (ExitStatus{1, 0}));
  EXPECT_THAT(other.said(), AllOf(HasSubstr("is lost: the launcher that ran it has ended (Connection refused)"),
                                  HasSubstr("With --rdzv_backend etcd a job survives")));
  EXPECT_EQ(host.wait(), (ExitStatus{0, SIGKILL}));
  EXPECT_TRUE(probe.nobody_left());
}

TEST(Elastic, ThoroughTheOthersHearThatTheServiceGoes) {
  const Rendezvous rendezvous("is_host=1");
  Agent host(rendezvous, {"--nnodes=1:2"}, {"print=ready", "sleep_ms=60000"});
  Agent other(Rendezvous::at(rendezvous.port(), "is_host=0"), {"--nnodes=1:2"}, {"print=ready", "sleep_ms=60000"});
  ASSERT_TRUE(other.says("ready"));
  host.kill(SIGINT);
  EXPECT_EQ(host.wait(), (ExitStatus{130, 0})) << host.said();
  EXPECT_EQ(other.wait(), (ExitStatus{1, 0}));
  EXPECT_THAT(other.said(),
              HasSubstr("left (ended by SIGINT), and the job ends with the launcher that runs its service"));
}

TEST(Elastic, TwoJobsAtOneEndpoint) {
  const Rendezvous rendezvous("is_host=1");
  const auto guest = Rendezvous::at(rendezvous.port(), "is_host=0");
  const TemporaryFolder folder;
  const auto sign = [&](const char* name) { return (folder.path() / name).string(); };
  const Words ranks = {"env=WORLD_SIZE", "await=" + sign("guests"), "print=done"};
  Agent first(guest, {"--nnodes=2", "--rdzv_id=b"}, ranks);
  Agent second(guest, {"--nnodes=2", "--rdzv_id=b"}, ranks);
  for (auto* agent : {&first, &second}) ASSERT_TRUE(agent->says("waiting for the job's service")) << agent->said();
  Agent host(rendezvous, {"--nnodes=1", "--rdzv_id=a"}, {"env=WORLD_SIZE", "await=" + sign("host")});
  for (auto* agent : {&first, &second}) ASSERT_TRUE(agent->says("WORLD_SIZE=2")) << agent->said();
  write_file(sign("host"), "");
  // Its own job is done, and the store is needed still.
  EXPECT_TRUE(host.says("is still in use and stays open until it is no longer used")) << host.said();
  write_file(sign("guests"), "");
  for (auto* agent : {&first, &second}) {
    EXPECT_EQ(agent->wait(), kWell) << agent->said();
    EXPECT_THAT(agent->said(), AllOf(HasSubstr("WORLD_SIZE=2"), HasSubstr("done")));
  }
  EXPECT_EQ(host.wait(), kWell) << host.said();
  EXPECT_THAT(host.said(), HasSubstr("WORLD_SIZE=1"));
}

TEST(Elastic, StaticNodesHaveTheirNumbers) {
  const std::string port = free_port();
  const auto flags = [&](int node) {
    return Words{"--nnodes=2", "--node_rank=" + std::to_string(node), "--master_addr=127.0.0.1",
                 "--master_port=" + port};
  };
  Agent second(flags(1), {"env=RANK"});
  Agent first(flags(0), {"env=RANK"});
  EXPECT_EQ(first.wait(), kWell) << first.said();
  EXPECT_EQ(second.wait(), kWell) << second.said();
  EXPECT_THAT(first.said(), HasSubstr("[rank 0] RANK=0\n"));
  EXPECT_THAT(second.said(), HasSubstr("[rank 1] RANK=1\n"));
}

TEST(Elastic, OneNodeRestartsToo) {
  Agent agent(Words{"--standalone", "--nproc_per_node=2", "--max_restarts=1"},
              {"env=TORCHELASTIC_MAX_RESTARTS", "1@0:exit=4", "0@0:sleep_ms=60000", "env=TORCHELASTIC_RESTART_COUNT"});
  EXPECT_EQ(agent.wait(), kWell) << agent.said();
  EXPECT_THAT(agent.said(), AllOf(HasSubstr("restart 1 of 1"), HasSubstr("[rank 0] TORCHELASTIC_RESTART_COUNT=1")));
}

TEST(Elastic, RanksThatEndEarlyForTheUsersSignalUseNoRestart) {
  for (const int signal : {SIGUSR1, SIGTERM}) {
    Agent agent(Words{"--nproc_per_node=2", "--max_restarts=3"},
                {"ended_early=saved", fmt::format("exit7_on={}", signal), "print=ready", "sleep_ms=60000"});
    ASSERT_TRUE(agent.says("ready", 2)) << agent.said();
    agent.kill(signal);
    EXPECT_EQ(agent.wait(), (ExitStatus{7, 0})) << agent.said();
    EXPECT_THAT(agent.said(), AllOf(HasSubstr("exit code 7"), HasSubstr("saved"), Not(HasSubstr("restart"))));
  }
}

TEST(Elastic, ThoroughTrainingThatABatchSystemEndsIsNotStartedAnew) {
  const Workbench bench;
  Agent agent = Agent::of_program(Words{"--nproc_per_node=2", "--max_restarts=3"},
                                  bench.train({"train.epochs=100000", "checkpoint.every_epochs=100000"}));
  const auto limit = std::chrono::steady_clock::now() + 60s;
  while (read_file(bench.work_dir() / "metrics.jsonl").empty() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(50ms);
  }
  agent.kill(SIGUSR1);
  EXPECT_EQ(agent.wait(), (ExitStatus{75, 0})) << agent.said();
  EXPECT_THAT(agent.said(), AllOf(HasSubstr("SIGUSR1 ended the run early"), Not(HasSubstr("restart"))));
}

/// The first command of docs/surviving.md, as somebody would paste it, but for its host.
std::string first_example(const std::string& endpoint) {
  const auto page = read_file(LOCKSTEP_SOURCE_DIR "/docs/surviving.md");
  const auto begin = page.find("lockstep run ", page.find("```\n"));
  auto command = page.substr(begin, page.find("\n\n", begin) - begin);
  const std::string host = "host0:29400";
  const auto at = command.find(host);
  if (at == std::string::npos) return "exit 99  # no " + host + " in: " + command;
  return command.replace(at, host.size(), endpoint);
}

// A rank of the first node is held in the middle of a step. When the second node comes, the launcher wakes it to end
// it.
TEST(Elastic, TheFirstExampleTrainsOnWhenANodeJoins) {
  const Workbench bench;
  auto config = read_file(bench.config());
  const std::string per_rank = "batch_size: 10";
  config.replace(config.find(per_rank), per_rank.size(), "global_batch_size: 10");
  write_file(bench.config(), config + "  clip_norm: 1\ncheckpoint: {every_epochs: 100}\ncallbacks: {loss_every: 0}\n");
  const auto whole = bench.path() / "whole";
  const Words epochs = {"train.epochs=20"};
  const auto alone = run_program(bench.train({epochs[0], "system.work_dir=" + whole.string()}));
  ASSERT_TRUE(alone.status.ok()) << alone.err;

  const auto script = fmt::format("cd {}; PATH={}:$PATH; exec {} {}", bench.path().string(),
                                  std::filesystem::path(LOCKSTEP_BINARY).parent_path().string(),
                                  first_example("127.0.0.1:" + free_port()), epochs[0]);
  const auto node = [&](const std::string& more) {
    return Agent::of_command(
        {"env", "PET_RDZV_CONF=last_call_timeout=0.2,keep_alive_max_attempt=60", more, "bash", "-c", script});
  };
  Agent first = node("LOCKSTEP_FAULT=rank=1,step=20,action=stop");
  ASSERT_GT(first.wait_for_stopped_rank(), 0) << first.said();
  Agent second = node("LOCKSTEP_FAULT=");
  for (auto* agent : {&first, &second}) {
    EXPECT_EQ(agent->wait(), kWell) << agent->said();
    EXPECT_THAT(agent->said(), Not(HasSubstr("restart")));
  }
  EXPECT_THAT(first.said(), AllOf(HasSubstr("5 each"), HasSubstr("ended by SIGTERM after 20 of 80 steps"),
                                  HasSubstr("the ranks were stopped"), HasSubstr("20 of 80 steps are done"),
                                  HasSubstr("changed since the checkpoint: ranks: 2 -> 4"),
                                  HasSubstr("2 each, one more on the first 2")));
  const auto result = nlohmann::json::parse(read_file(bench.work_dir() / "result.json"));
  const auto expected = nlohmann::json::parse(read_file(whole / "result.json"));
  for (const auto* key : {"steps", "epochs", "eval_samples", "eval_accuracy", "global_batch_size"}) {
    EXPECT_EQ(result[key], expected[key]) << key;
  }
  EXPECT_EQ(result["world_size"], 4);
  EXPECT_NEAR(result["eval_loss"].get<double>(), expected["eval_loss"].get<double>(), 1e-4);
  const auto lines = lines_of(read_file(bench.work_dir() / "metrics.jsonl"));
  const auto expected_lines = lines_of(read_file(whole / "metrics.jsonl"));
  ASSERT_EQ(lines.size(), 80U);
  ASSERT_EQ(expected_lines.size(), 80U);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto line = nlohmann::json::parse(lines[i]);
    const auto other = nlohmann::json::parse(expected_lines[i]);
    EXPECT_EQ(line["lr"], other["lr"]);
    EXPECT_NEAR(line["loss"].get<double>(), other["loss"].get<double>(), 1e-4) << i;
  }
}

TEST(Elastic, AMistakeOfTheUserIsNotTriedAgain) {
  const Workbench bench;
  const auto alone = run_program(bench.train());
  ASSERT_TRUE(alone.status.ok()) << alone.err;
  const Rendezvous rendezvous;
  const Words flags = {"--nnodes=2", "--max_restarts=3"};
  Agent first = Agent::of_program(rendezvous, flags, bench.train({"train.epochs=2"}));
  Agent second = Agent::of_program(rendezvous, flags, bench.train({"train.epochs=2"}));
  for (auto* agent : {&first, &second}) {
    EXPECT_EQ(agent->wait(), (ExitStatus{2, 0})) << agent->said();
    EXPECT_THAT(agent->said(),
                AllOf(HasSubstr("global batch (data.batch_size x ranks): 10 -> 20"),
                      HasSubstr("With data.global_batch_size=10 in place of data.batch_size"),
                      ContainsRegex("0 of 3 restarts were used, because rank [01] reports that its command"),
                      Not(HasSubstr("restarted"))));
  }
}

TEST(Elastic, ExitCodeTwoOfOtherProgramsIsTriedAgain) {
  for (const Words& says : {Words{}, Words{"0@0:note=the disk was full"}}) {
    Words ranks = says;
    ranks.insert(ranks.end(), {"0@0:exit=2", "print=second attempt"});
    Agent agent(Words{"--standalone", "--nproc_per_node=1", "--max_restarts=1"}, ranks);
    EXPECT_EQ(agent.wait(), kWell) << agent.said();
    EXPECT_THAT(agent.said(), AllOf(HasSubstr("restart 1 of 1"), HasSubstr("second attempt")));
  }
}

TEST(Elastic, ThoroughNodesWhoseRanksEndEarlyEndWithThem) {
  const Rendezvous rendezvous;
  // The word to one launcher ends the ranks of both, as those of `lockstep train` agree to.
  const TemporaryFolder folder;
  const std::string script =
      "trap 'touch $0/end' USR1; echo ready; until [ -e $0/end ]; do sleep 0.05; done; "
      "echo '{\"message\": {\"message\": \"saved\", \"extraInfo\": {\"kind\": \"ended_early\"}}}' "
      ">$TORCHELASTIC_ERROR_FILE; exit 75";
  const Words program = {"sh", "-c", script, folder.path().string()};
  Agent first = Agent::of_program(rendezvous, {"--nnodes=2", "--max_restarts=3"}, program);
  Agent second = Agent::of_program(rendezvous, {"--nnodes=2", "--max_restarts=3"}, program);
  for (auto* agent : {&first, &second}) ASSERT_TRUE(agent->says("ready")) << agent->said();
  for (auto* agent : {&first, &second}) agent->kill(SIGUSR1);
  for (auto* agent : {&first, &second}) {
    EXPECT_EQ(agent->wait(), (ExitStatus{75, 0})) << agent->said();
    EXPECT_THAT(agent->said(), AllOf(HasSubstr("saved"), Not(HasSubstr("restart"))));
  }
}

TEST(Elastic, ThoroughTheLastAttemptIsWhatOthersHearOf) {
  const TemporaryFolder folder;
  const auto error_file = folder.path() / "outer.json";
  const auto ran = lockstep({"run", "--max_restarts=1", "--rdzv_id=job7", "--log_dir", folder.path() / "logs",
                             LOCKSTEP_RANK_PROGRAM, "0@0:exit=3", "note=disk full", "exit=5"},
                            {{"TORCHELASTIC_ERROR_FILE", error_file.string()}});
  EXPECT_EQ(ran.status, (ExitStatus{5, 0}));
  EXPECT_THAT(ran.err, AllOf(HasSubstr("exit code 3"), HasSubstr("reason: [test] disk full\n"),
                             HasSubstr("  logs: " + (folder.path() / "logs" / "job7_").string())));
  const auto message = nlohmann::json::parse(read_file(error_file))["message"];
  EXPECT_EQ(message["message"], "[test] disk full");
  EXPECT_EQ(message["errorCode"], 5);
}

TEST(Elastic, ThoroughPythonAndLockstepRanksMeetAcrossNodes) {
  for (const Words& program :
       {Words{LOCKSTEP_PYTHON, LOCKSTEP_SOURCE_DIR "/tests/cli/torch_ranks.py"}, Words{LOCKSTEP_EXAMPLES "/toy_ddp"}}) {
    const Rendezvous rendezvous;
    const auto start = [&] { return Agent::of_program(rendezvous, {"--nnodes=2"}, program); };
    Agent first = start();
    Agent second = start();
    EXPECT_EQ(first.wait(), kWell) << first.said();
    EXPECT_EQ(second.wait(), kWell) << second.said();
    EXPECT_THAT(first.said() + second.said(),
                testing::AnyOf(HasSubstr("mean gradient 1.5"), HasSubstr("replicas on 2 rank(s) are equal")));
  }
}

TEST(Elastic, AHostWhoseNetworkGoesIsDoneWithout) {
  const TwoHosts hosts;
  if (!hosts.made()) GTEST_SKIP() << TwoHosts::kObstacle;
  const Words flags = {
      "--nnodes=1:2", "--rdzv_backend=c10d", "--rdzv_endpoint=" + TwoHosts::address(0).append(":29400"),
      "--rdzv_conf=last_call_timeout=10,keep_alive_interval=0.5,keep_alive_max_attempt=10,read_timeout=5"};
  const Words ranks = {"env=WORLD_SIZE", "env=MASTER_ADDR", "sleep_ms=60000"};
  Agent second = Agent::on_host(1, flags, ranks);
  Agent first = Agent::on_host(0, flags, ranks);
  ASSERT_TRUE(first.says("WORLD_SIZE=2")) << first.said();
  ASSERT_TRUE(second.says(fmt::format("MASTER_ADDR={}", TwoHosts::address(0)))) << second.said();
  ASSERT_TRUE(TwoHosts::unplug());
  EXPECT_TRUE(first.says(TwoHosts::address(1).append(") was lost"))) << first.said();
  EXPECT_TRUE(first.says("WORLD_SIZE=1")) << first.said();
  EXPECT_TRUE(second.says("the job's service at 10.77.0.1:29400 has not answered for")) << second.said();
  EXPECT_TRUE(second.says("this launcher was cut off from its job and tries to join it again")) << second.said();
  ASSERT_TRUE(TwoHosts::plug_in());
  EXPECT_TRUE(first.says("WORLD_SIZE=2", 2)) << first.said();
  EXPECT_TRUE(second.says("MASTER_ADDR=", 2)) << second.said();
  second.kill(SIGTERM);
  EXPECT_EQ(second.wait(), (ExitStatus{143, 0})) << second.said();
  first.kill(SIGTERM);
  EXPECT_EQ(first.wait(), (ExitStatus{143, 0}));
}

// With the defaults, a job of a fixed batch size would have to begin anew.
TEST(Elastic, ANodeWithWhichTheProgramCannotRunIsRefusedAndTheJobGoesOn) {
  const Workbench bench;
  const Rendezvous rendezvous("last_call_timeout=0.2,keep_alive_max_attempt=60");
  const auto node = [&](const std::string& fault) {
    Words words = {"env", fault, LOCKSTEP_BINARY, "run"};
    for (const auto& more : {rendezvous.flags(), Words{"--nnodes=1:2"}, bench.train({"train.epochs=10"})}) {
      words.insert(words.end(), more.begin(), more.end());
    }
    return Agent::of_command(words);
  };
  Agent first = node("LOCKSTEP_FAULT=rank=0,step=10,action=stop");
  ASSERT_GT(first.wait_for_stopped_rank(), 0) << first.said();
  Agent second = node("LOCKSTEP_FAULT=");
  EXPECT_EQ(second.wait(), (ExitStatus{2, 0})) << second.said();
  EXPECT_THAT(second.said(), AllOf(HasSubstr("With data.global_batch_size=10 in place of data.batch_size"),
                                   HasSubstr("cannot join"), HasSubstr("goes on without this node")));
  EXPECT_EQ(first.wait(), kWell) << first.said();
  EXPECT_THAT(first.said(), AllOf(HasSubstr("cannot join: a rank on"), Not(HasSubstr("restarted"))));
  const auto result = nlohmann::json::parse(read_file(bench.work_dir() / "result.json"));
  EXPECT_EQ(result["world_size"], 1);
}

TEST(Elastic, ASpareSaysWhatItIsAndEndsWithACodeOfItsOwn) {
  const TemporaryFolder folder;
  const auto sign = (folder.path() / "sign").string();
  const Rendezvous rendezvous;
  Agent first(rendezvous, {"--nnodes=1"}, {"print=begun", "await=" + sign});
  ASSERT_TRUE(first.says("begun")) << first.said();
  Agent second(rendezvous, {"--nnodes=1"}, {"print=begun"});
  ASSERT_TRUE(second.says("this node is a spare, which waits for one of them to be lost or to leave")) << second.said();
  ASSERT_TRUE(second.says("start it with another --rdzv_id")) << second.said();
  write_file(sign, "");
  EXPECT_EQ(first.wait(), kWell) << first.said();
  EXPECT_EQ(second.wait(), (ExitStatus{69, 0})) << second.said();
  EXPECT_THAT(second.said(), AllOf(HasSubstr("nothing was computed here"), Not(HasSubstr("begun"))));
}

TEST(Elastic, TheExampleStartsAJobOnEachNode) {
  const TemporaryFolder folder;
  const Words words = {"bash", LOCKSTEP_SOURCE_DIR "/examples/launch/elastic.sh", LOCKSTEP_EXAMPLES "/toy_ddp"};
  const Environment variables = {
      {"ENDPOINT", "127.0.0.1:" + free_port()}, {"NNODES", "2:3"}, {"NPROC_PER_NODE", "1"}, {"LAST_CALL", "0.2"}};
  const auto ran = on_two_nodes(folder.path(), words, {variables, variables});
  for (const auto& node : ran) EXPECT_TRUE(node.status.ok()) << node.err;
  EXPECT_THAT(ran[0].out + ran[1].out, HasSubstr("replicas on 2 rank(s) are equal"));
}

}  // namespace
}  // namespace lockstep::test
