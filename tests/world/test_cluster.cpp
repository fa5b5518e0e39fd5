// MS_ROLE and its relatives, from the environment and from a configuration.
#include "base/expect_error.h"
#include "world/world_cases.h"

#include <lockstep/base/config.h>
#include <lockstep/world/cluster_settings.h>
#include <lockstep/world/start.h>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using test::environment_of;
using test::expect_error;
using test::expect_words;

constexpr const char* kWorker = "MS_ROLE=MS_WORKER MS_WORKER_NUM=8 MS_SCHED_HOST=10.0.0.1 MS_SCHED_PORT=6667";

std::optional<ClusterSettings> cluster_of(const std::string& variables, const ClusterOptions& options = {}) {
  return find_cluster(environment_of(variables), options);
}

ClusterOptions options_of(const std::string& keys) {
  ClusterOptions options;
  const auto source = parse_config(keys, "run.yaml");
  read_fields(source.root, "cluster", [&](ConfigFields& fields) { describe(fields, options); });
  return options;
}

TEST(Cluster, AWorker) {
  const auto settings = cluster_of(std::string(kWorker) + " MS_NODE_ID=w3 MS_SERVER_NUM=0");
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->role, ClusterRole::worker);
  EXPECT_EQ(settings->workers, 8);
  EXPECT_EQ(settings->host, "10.0.0.1");
  EXPECT_EQ(settings->port, 6667);
  EXPECT_EQ(settings->node_id, "w3");
  EXPECT_FALSE(settings->recovery);
  EXPECT_FALSE(settings->enable_ssl);
  EXPECT_EQ(settings->node_timeout_s, 30);

  const World world = detect_world(environment_of(kWorker));
  EXPECT_EQ(world.rank, -1);
  EXPECT_EQ(world.size, 8);
  EXPECT_EQ(world.rendezvous, Rendezvous::scheduler);
  EXPECT_EQ(world.master_addr, "10.0.0.1");
  EXPECT_EQ(describe(world), std::string("a worker of 8, started by scheduler (") + kWorker + ")");
  EXPECT_EQ(detect_world(environment_of(std::string(kWorker) + " DEVICE_ID=3")).device, 3);
}

TEST(Cluster, NothingWithoutARole) {
  EXPECT_FALSE(cluster_of(""));
  EXPECT_FALSE(cluster_of("MS_WORKER_NUM=8", options_of("{sched_host: h, sched_port: 6667}")));
  expect_error(ErrorKind::environment, {"MS_SCHED_HOST=h is set and MS_ROLE is not", "--launcher none"},
               [] { detect_world(environment_of("MS_SCHED_HOST=h")); });
  EXPECT_EQ(detect_world(environment_of("MS_SCHED_HOST=h"), "none").size, 1);
}

TEST(Cluster, AConfigurationSaysTheSame) {
  const auto options = options_of(
      "{role: MS_SCHED, worker_num: 2, sched_host: h, sched_port: 6667, node_id: sched, enable_recovery: true, "
      "recovery_path: /state, node_timeout_s: 5, hang_timeout_s: 40, enable_ssl: true, config_file_path: c.json, "
      "client_password: secret}");
  const auto settings = cluster_of("", options);
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->role, ClusterRole::scheduler);
  EXPECT_TRUE(settings->recovery);
  EXPECT_EQ(settings->recovery_path, "/state");
  EXPECT_EQ(settings->hang_timeout_s, 40);
  EXPECT_EQ(settings->client_password.text, "secret");
  EXPECT_EQ(settings->evidence.find("secret"), std::string::npos);

  const auto worker = cluster_of(
      "MS_ROLE=MS_WORKER MS_WORKER_NUM=4 MS_NODE_TIMEOUT=7 LOCKSTEP_HANG_TIMEOUT_S=2.5 MS_ENABLE_RECOVERY=0", options);
  EXPECT_EQ(worker->role, ClusterRole::worker) << "variables win";
  EXPECT_EQ(worker->workers, 4);
  EXPECT_EQ(worker->node_timeout_s, 7);
  EXPECT_EQ(worker->hang_timeout_s, 2.5);
  EXPECT_FALSE(worker->recovery);
}

TEST(Cluster, PasswordsAreNeitherPrintedNorTakenFromTheCommandLine) {
  const auto fields = [](ClusterOptions& options) {
    return [&options](ConfigFields& f) { f.section("cluster", options, ""); };
  };
  ClusterOptions options;
  const auto source = parse_config("cluster: {server_password: '123456'}", "run.yaml");
  read_fields(source.root, "", fields(options));
  EXPECT_EQ(options.server_password, "123456");
  const std::string printed = print_fields(fields(options));
  EXPECT_EQ(printed.find("123456"), std::string::npos);
  expect_words(printed, {"server_password"});
  const std::vector<std::string> overrides = {"cluster.server_password=abcdef"};
  const auto error =
      expect_error(ErrorKind::config, {"cluster.server_password must not be given on the command line"},
                   [&] { read_fields(parse_config("{}", "run.yaml", overrides).root, "", fields(options)); });
  EXPECT_EQ(std::string(error->what()).find("abcdef"), std::string::npos);
}

struct Bad {
  std::string variables;
  ErrorKind kind;
  std::vector<std::string> words;
};

TEST(Cluster, WhatIsWrongIsSaid) {
  const std::string worker = kWorker;
  const std::vector<Bad> cases = {
      {"MS_ROLE=MS_WORKER MS_WORKER_NUM=2",
       ErrorKind::environment,
       {"MS_ROLE=MS_WORKER MS_WORKER_NUM=2 is not enough", "set MS_SCHED_HOST", "and MS_SCHED_PORT"}},
      {"MS_ROLE=worker", ErrorKind::environment, {"MS_ROLE='worker' is none of MS_SCHED and MS_WORKER"}},
      {"MS_ROLE=MS_PSERVER", ErrorKind::environment, {"MS_ROLE=MS_PSERVER is a parameter server"}},
      {"MS_WORKER_NUM=0 " + worker, ErrorKind::environment, {"MS_WORKER_NUM=0 is out of range"}},
      {"MS_SCHED_PORT=80 " + worker,
       ErrorKind::environment,
       {"MS_SCHED_PORT=80 is out of range", "from 1024 to 65535"}},
      {worker + " MS_ENABLE_RECOVERY=1 MS_NODE_ID=w", ErrorKind::environment, {"the recovery path is empty"}},
      {worker + " MS_ENABLE_RECOVERY=1 MS_RECOVERY_PATH=/state", ErrorKind::environment, {"no MS_NODE_ID", "worker_0"}},
      {worker + " MS_ENABLE_RECOVERY=maybe", ErrorKind::environment, {"MS_ENABLE_RECOVERY='maybe' is neither 1 nor 0"}},
      {worker + " MS_NODE_TIMEOUT=soon", ErrorKind::environment, {"MS_NODE_TIMEOUT='soon' is no number of seconds"}},
      {worker + " LOCKSTEP_ENABLE_SSL=1", ErrorKind::environment, {"no config_file_path", "lockstep certs init"}},
      {worker + " LOCKSTEP_SERVER_PASSWORD=a LOCKSTEP_SERVER_PASSWORD_FILE=b",
       ErrorKind::environment,
       {"are both set"}},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.variables);
    const auto error = expect_error(one.kind, {}, [&] { cluster_of(one.variables); });
    ASSERT_TRUE(error);
    for (const auto& word : one.words) expect_words(error->what(), {word});
  }
}

TEST(Cluster, AParameterServerOfAProgramThatHasThem) {
  const std::string place = " MS_WORKER_NUM=8 MS_SCHED_HOST=10.0.0.1 MS_SCHED_PORT=6667";
  ClusterOptions options;
  options.with_servers = true;
  const auto server = cluster_of("MS_ROLE=MS_PSERVER MS_SERVER_NUM=3" + place, options);
  ASSERT_TRUE(server);
  EXPECT_EQ(server->role, ClusterRole::server);
  EXPECT_EQ(server->workers, 8);
  EXPECT_EQ(server->servers, 3);
  const auto worker = cluster_of(std::string(kWorker) + " MS_SERVER_NUM=3", options);
  ASSERT_TRUE(worker);
  EXPECT_EQ(worker->role, ClusterRole::worker);
  EXPECT_EQ(worker->servers, 3);
  EXPECT_EQ(cluster_of(std::string(kWorker) + " MS_SERVER_NUM=3")->servers, 0) << "of another program";
  expect_error(ErrorKind::environment, {"a parameter server", "set MS_SERVER_NUM"},
               [&] { cluster_of("MS_ROLE=MS_PSERVER" + place, options); });
  const auto recovery = " MS_SERVER_NUM=3 MS_ENABLE_RECOVERY=1 MS_RECOVERY_PATH=/s" + place;
  EXPECT_TRUE(cluster_of("MS_ROLE=MS_PSERVER MS_NODE_ID=s" + recovery, options)->recovery);
  expect_error(ErrorKind::environment, {"this server has no MS_NODE_ID"},
               [&] { cluster_of("MS_ROLE=MS_PSERVER" + recovery, options); });
}

TEST(Cluster, ASchedulerIsNoRank) {
  expect_error(ErrorKind::environment, {"makes this process the scheduler, which trains nothing"}, [] {
    detect_world(environment_of("MS_ROLE=MS_SCHED MS_WORKER_NUM=8 MS_SCHED_HOST=10.0.0.1 MS_SCHED_PORT=6667"));
  });
}

TEST(Cluster, ALauncherBesideItIsAnError) {
  const std::string torch = " RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=6";
  expect_error(ErrorKind::environment, {"a job with a scheduler, but pytorch (RANK=0", "leave out one of the two"},
               [&] { detect_world(environment_of(kWorker + torch)); });
  EXPECT_EQ(detect_world(environment_of(kWorker + torch), "pytorch").size, 2);
  EXPECT_EQ(detect_world(environment_of(kWorker + torch), "scheduler").size, 8);
  expect_error(ErrorKind::environment, {"launcher scheduler was requested"},
               [] { detect_world(Environment{}, "scheduler"); });
}

}  // namespace
}  // namespace lockstep
