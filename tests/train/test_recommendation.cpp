// Runs of recommendation models: clicks, embedding tables, optimizers of rows, AUC.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/data/synthesize.h>
#include <lockstep/train/config.h>
#include <lockstep/train/run_group.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/ranks.h"
#include "support/read_file.h"
#include "train/small_run.h"

namespace lockstep::test {
namespace {

class Recommendation : public testing::Test {
 protected:
  void synthesize(std::int64_t rows, double scale) {
    teacher_ = data::synthesize_criteo(folder_.path() / "data",
                                       {.rows = rows, .test_rows = rows / 4, .scale = scale, .seed = 1});
  }

  nlohmann::json run(int ranks, const std::string& name, std::vector<std::string> overrides) const {
    const auto is_mode = [](const std::string& word) { return word.starts_with("parallel.mode="); };
    if (std::none_of(overrides.begin(), overrides.end(), is_mode)) overrides.push_back("parallel.mode=data_parallel");
    overrides.push_back("data.root=" + (folder_.path() / "data").string());
    overrides.push_back("system.work_dir=" + (folder_.path() / name).string());
    overrides.push_back("model.rows=20000");
    overrides.push_back("data.rows=20000");
    const auto config =
        train::load_run_config(std::filesystem::path(LOCKSTEP_CONFIGS) / "recsys/wide_and_deep_criteo.yaml", overrides);
    auto options = SmallRun::small_rank_options();
    options.deadline = std::chrono::seconds(300);
    run_ranks(ranks, options, [&](Rank& rank) {
      auto world = rank.world();
      if (world.size == 1) world.rendezvous = Rendezvous::alone;
      train::run_training(config, world);
    });
    return nlohmann::json::parse(read_file(folder_.path() / name / "result.json"));
  }

  TemporaryFolder folder_;
  data::CriteoTeacher teacher_;
};

TEST_F(Recommendation, ThoroughComesNearToItsTeacher) {
  synthesize(60'000, 0.0001);
  const auto result = run(2, "out", {"data.global_batch_size=200", "model.dim=4", "model.hidden=[16]"});
  EXPECT_GT(result["eval_auc"].get<double>(), teacher_.test_auc - 0.02) << "teacher " << teacher_.test_auc;
  EXPECT_LT(result["eval_auc"].get<double>(), teacher_.test_auc + 0.01);
}

const std::vector<std::string> kSmall{"data.global_batch_size=60", "model.dim=3", "model.hidden=[8]", "train.epochs=1"};

std::vector<std::string> operator+(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(Recommendation, HasTheSameParametersWhetherRowsOrTablesTravel) {
  synthesize(900, 0.001);
  for (const std::string name : {"lazy_sgd", "lazy_adagrad"}) {
    const auto words =
        kSmall + std::vector<std::string>{"optimizer.groups=[]", "optimizer.lr=0.1", "optimizer.name=" + name};
    for (const int ranks : {1, 2, 3}) {
      const auto job = name + std::to_string(ranks);
      const auto rows = run(ranks, job + "rows", words);
      const auto dense = run(ranks, job + "dense", words + std::vector<std::string>{"parallel.sparse_gradients=dense"});
      const auto whole = run(ranks, job + "whole", words + std::vector<std::string>{"model.sparse=false"});
      EXPECT_EQ(rows["params_sha256"], dense["params_sha256"]) << job;
      EXPECT_EQ(rows["params_sha256"], whole["params_sha256"]) << job;
      EXPECT_EQ(rows["eval_auc"], dense["eval_auc"]) << job;
    }
  }
}

TEST_F(Recommendation, GoesOnFromACheckpointAsIfNothingHadHappened) {
  synthesize(900, 0.001);
  const auto words = kSmall + std::vector<std::string>{"train.epochs=3", "checkpoint.every_epochs=1"};
  const auto whole = run(2, "whole", words);
  run(2, "part", kSmall + std::vector<std::string>{"train.epochs=1", "checkpoint.every_epochs=1"});
  const auto resumed = run(2, "part", words);
  EXPECT_EQ(resumed["params_sha256"], whole["params_sha256"]);
  EXPECT_EQ(resumed["eval_auc"], whole["eval_auc"]);
}

TEST_F(Recommendation, TakesSparseTablesWithOptimizersThatDoNot) {
  synthesize(900, 0.001);
  const auto words =
      kSmall + std::vector<std::string>{"optimizer.groups=[]", "optimizer.name=adam", "train.clip_norm=1"};
  for (const int ranks : {1, 2}) {
    const auto job = "adam" + std::to_string(ranks);
    EXPECT_EQ(run(ranks, job + "sparse", words)["params_sha256"],
              run(ranks, job + "whole", words + std::vector<std::string>{"model.sparse=false"})["params_sha256"]);
  }
}

std::vector<std::string> on_servers(int servers, const std::string& partition) {
  return {"parallel.mode=parameter_server", "parallel.server.partition=" + partition,
          "cluster.server_num=" + std::to_string(servers)};
}

TEST_F(Recommendation, HasTheSameParametersWithTablesOnServers) {
  synthesize(900, 0.001);
  for (const int workers : {1, 2, 3}) {
    const auto name = std::to_string(workers);
    const auto whole = run(workers, "whole" + name, kSmall);
    for (const int servers : {1, 2, 3}) {
      for (const std::string partition : {"hash", "range"}) {
        if (workers == 3 && servers == 3) continue;  // no new case
        const auto job = name + "+" + std::to_string(servers) + partition;
        const auto served = run(workers + servers, job, kSmall + on_servers(servers, partition));
        EXPECT_EQ(served["params_sha256"], whole["params_sha256"]) << job;
        EXPECT_EQ(served["eval_auc"], whole["eval_auc"]) << job;
        EXPECT_EQ(served["world_size"], workers) << job;
        EXPECT_EQ(read_file(folder_.path() / job / "model.safetensors"),
                  read_file(folder_.path() / ("whole" + name) / "model.safetensors"))
            << job;
      }
    }
  }
}

TEST_F(Recommendation, ThoroughHasTheSameParametersWithEachRuleOnServers) {
  synthesize(900, 0.001);
  for (const std::string rule : {"lazy_sgd", "lazy_momentum", "lazy_adagrad", "lazy_adam", "ftrl"}) {
    const auto words =
        kSmall + std::vector<std::string>{"optimizer.groups=[{match: \"deep.*\", lr_factor: 0.5}]", "optimizer.lr=0.1",
                                          "optimizer.weight_decay=0.01", "optimizer.name=" + rule};
    EXPECT_EQ(run(4, rule + "served", words + on_servers(2, "hash"))["params_sha256"],
              run(2, rule + "whole", words)["params_sha256"])
        << rule;
  }
}

TEST_F(Recommendation, ThoroughGoesOnWithAnotherNumberOfServers) {
  synthesize(900, 0.001);
  const auto words = kSmall + std::vector<std::string>{"train.epochs=2"};
  const auto whole = run(2, "whole", words);
  for (const std::string parameters : {"[]", "[\"*\"]"}) {
    const std::vector<std::string> served{"parallel.server.parameters=" + parameters, "parallel.server.slice_kb=1"};
    const auto job = "part" + parameters;
    run(4, job, kSmall + on_servers(2, "hash") + served);
    const auto resumed = run(5, job, words + on_servers(3, "range") + served);
    EXPECT_EQ(resumed["params_sha256"], whole["params_sha256"]) << parameters;
    EXPECT_EQ(resumed["eval_auc"], whole["eval_auc"]) << parameters;
  }
}

/// Of everything, or of some parameters, cut into pieces of 256 numbers.
std::vector<std::string> with_parameters(const std::string& patterns) {
  return {"parallel.server.parameters=" + patterns, "parallel.server.slice_kb=1"};
}

TEST_F(Recommendation, HasTheSameParametersWithTheWholeNetworkOnServers) {
  synthesize(900, 0.001);
  for (const int workers : {1, 2, 3}) {
    const auto name = std::to_string(workers);
    const auto whole = run(workers, "whole" + name, kSmall);
    for (const int servers : {1, 2, 3}) {
      for (const std::string patterns : {"[\"*\"]", "[\"fc1.*\", bias]"}) {
        const auto job = name + "+" + std::to_string(servers) + patterns;
        const auto served =
            run(workers + servers, job, kSmall + on_servers(servers, "hash") + with_parameters(patterns));
        EXPECT_EQ(served["params_sha256"], whole["params_sha256"]) << job;
        EXPECT_EQ(served["eval_auc"], whole["eval_auc"]) << job;
      }
    }
  }
}

TEST_F(Recommendation, ThoroughHasTheSameParametersWithEachRuleOfTheWholeNetworkOnServers) {
  synthesize(900, 0.001);
  for (const std::string rule : {"lazy_sgd", "lazy_momentum", "lazy_adagrad", "lazy_adam", "ftrl"}) {
    const auto words =
        kSmall + std::vector<std::string>{"optimizer.groups=[{match: \"fc*.bias\", weight_decay: 0}]",
                                          "optimizer.lr=0.1", "optimizer.weight_decay=0.01", "optimizer.name=" + rule};
    EXPECT_EQ(run(4, rule + "served", words + on_servers(2, "hash") + with_parameters("[\"*\"]"))["params_sha256"],
              run(2, rule + "whole", words)["params_sha256"])
        << rule;
  }
}

TEST_F(Recommendation, ThoroughHasTheSameParametersWithSeveralBatchesInAStepAndRowsThatAreKept) {
  synthesize(900, 0.001);
  const auto words = kSmall + std::vector<std::string>{"train.accumulate=2"};
  const auto whole = run(2, "whole", words);
  for (const std::string cache : {"0", "100", "1000000"}) {
    const auto served = run(4, "served" + cache,
                            words + on_servers(2, "hash") + with_parameters("[\"fc*\"]") +
                                std::vector<std::string>{"parallel.server.cache_rows=" + cache});
    EXPECT_EQ(served["params_sha256"], whole["params_sha256"]) << cache;
    EXPECT_EQ(served["eval_auc"], whole["eval_auc"]) << cache;
  }
}

std::vector<std::string> apart(const std::string& consistency, int staleness = 0) {
  return with_parameters("[\"*\"]") +
         std::vector<std::string>{"parallel.server.consistency=" + consistency,
                                  "parallel.server.staleness=" + std::to_string(staleness)};
}

TEST_F(Recommendation, ThoroughOfOneWorkerIsTheSameWhetherOthersWouldBeWaitedFor) {
  synthesize(900, 0.001);
  const auto whole = run(1, "whole", kSmall);
  EXPECT_FALSE(whole.contains("consistency"));
  for (const std::string consistency : {"sync", "bounded", "async"}) {
    const auto served =
        run(3, consistency, kSmall + on_servers(2, "hash") + apart(consistency, consistency == "bounded" ? 3 : 0));
    EXPECT_EQ(served["params_sha256"], whole["params_sha256"]) << consistency;
  }
  EXPECT_EQ(run(4, "bounded by 0", kSmall + on_servers(2, "hash") + apart("bounded"))["params_sha256"],
            run(2, "whole of 2", kSmall)["params_sha256"]);
}

TEST_F(Recommendation, ThoroughComesNearToItsTeacherWithWorkersThatDoNotWait) {
  synthesize(60'000, 0.0001);
  for (const std::string consistency : {"bounded", "async"}) {
    const auto result = run(4, consistency,
                            std::vector<std::string>{"data.global_batch_size=200", "model.dim=4", "model.hidden=[16]"} +
                                on_servers(2, "hash") + apart(consistency, consistency == "bounded" ? 2 : 0));
    EXPECT_GT(result["eval_auc"].get<double>(), teacher_.test_auc - 0.03) << "teacher " << teacher_.test_auc;
    EXPECT_EQ(result["consistency"], consistency);
    EXPECT_EQ(result["world_size"], 2);
  }
}

TEST_F(Recommendation, ThoroughGoesOnFromACheckpointOfWorkersThatDoNotWait) {
  synthesize(900, 0.001);
  const auto words = kSmall + on_servers(2, "hash") + apart("async");
  run(4, "part", words);
  const auto resumed = run(4, "part", words + std::vector<std::string>{"train.epochs=2"});
  EXPECT_EQ(resumed["epochs"], 2);
  EXPECT_EQ(resumed["steps"], 30);
}

TEST_F(Recommendation, WithoutServersEachRankHasTheTables) {
  synthesize(900, 0.001);
  for (const int ranks : {1, 2}) {
    const auto name = std::to_string(ranks);
    EXPECT_EQ(run(ranks, "alone" + name,
                  kSmall + std::vector<std::string>{"parallel.mode=parameter_server"})["params_sha256"],
              run(ranks, "whole" + name, kSmall)["params_sha256"]);
  }
}

}  // namespace
}  // namespace lockstep::test
