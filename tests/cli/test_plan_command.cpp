// `lockstep plan` and `lockstep calibrate` from the outside.
#include "cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace lockstep::test {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

const std::string kConfigs = std::string(LOCKSTEP_SOURCE_DIR) + "/configs/";
const std::string kMlp = kConfigs + "mlp_mnist_auto.yaml";

TEST(PlanCommand, PrintsThePlanAndWritesWhatProgramsRead) {
  const TemporaryFolder folder;
  const std::string json = folder.path() / "plan.json";
  const std::string html = folder.path() / "plan.html";
  const auto ran = lockstep({"plan", "--config", kMlp, "--mesh", "2x8", "--compare", "data_parallel,zero3,megatron",
                             "--json", json, "--html", html});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("fc1"), HasSubstr("data_parallel"), HasSubstr("megatron")));
  const auto plan = nlohmann::json::parse(read_file(json));
  EXPECT_GT(plan["cost_s"].get<double>(), 0);
  EXPECT_GT(plan["memory_bytes"].get<double>(), 0);
  EXPECT_GE(plan["search_s"].get<double>(), 0);
  EXPECT_GT(plan["trace_s"].get<double>(), 0);
  EXPECT_EQ(plan["plan_hash"].get<std::string>().size(), 64U);
  Words names;
  for (const auto& each : plan["alternatives"]) {
    names.push_back(each["name"]);
    EXPECT_GE(each["cost_s"].get<double>(), plan["cost_s"].get<double>()) << names.back();
    EXPECT_GT(each["memory_bytes"].get<double>(), 0) << names.back();
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"data_parallel", "zero3", "megatron"}));
  EXPECT_THAT(read_file(html), AllOf(HasSubstr("<html"), HasSubstr("fc1")));
}

TEST(PlanCommand, PlansForTheGpusThatComeAsAnExample) {
  const auto ran = lockstep({"plan", "--config", kConfigs + "resnet50_cifar10.yaml", "--devices", "16", "--cluster",
                             kConfigs + "clusters/h200_8.yaml"});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("16 devices of \"nodes of 8 H200"), HasSubstr("of 141 GB")));
}

TEST(PlanCommand, PlansAGptThatNoFileDescribes) {
  const auto ran =
      lockstep({"plan", "--gpt", "layers=2,width=64,heads=4,context=16,vocabulary=128,batch=8", "--mesh", "2x2"});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("Plan for 4 devices"), ContainsRegex("blocks.*attention.query +x2"),
                             ContainsRegex("optimizer [1-9]")));
}

TEST(PlanCommand, AnAlternativeCanBeChosenAndSaved) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "zero3.json";
  const auto ran = lockstep({"plan", "--config", kMlp, "--devices", "4", "--choose", "zero3", "--save", file});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  const auto plan = nlohmann::json::parse(read_file(file));
  for (const auto& each : plan["alternatives"]) {
    if (each["name"] == "zero3") {
      EXPECT_EQ(each["cost_s"], plan["cost_s"]);
    } else if (each["name"] == "auto") {
      EXPECT_LE(each["cost_s"], plan["cost_s"]);
    }
  }
  EXPECT_THAT(plan["parameters"].dump(), HasSubstr("S"));
}

TEST(PlanCommand, TheSameQuestionHasTheSameAnswer) {
  const TemporaryFolder folder;
  std::vector<std::string> hashes;
  for (const char* name : {"a", "b"}) {
    const std::string json = folder.path() / name;
    const auto ran = lockstep({"plan", "--config", kMlp, "--devices", "8", "--json", json});
    ASSERT_TRUE(ran.status.ok()) << ran.err;
    hashes.push_back(nlohmann::json::parse(read_file(json))["plan_hash"]);
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

TEST(PlanCommand, WhatIfTheDevicesWereSlower) {
  const TemporaryFolder folder;
  const std::string json = folder.path() / "plan.json";
  const auto cost = [&](const Words& more) {
    Words words{"plan", "--config", kMlp, "--devices", "4", "--json", json};
    words.insert(words.end(), more.begin(), more.end());
    const auto ran = lockstep(words);
    EXPECT_TRUE(ran.status.ok()) << ran.err;
    return nlohmann::json::parse(read_file(json))["cost_s"].get<double>();
  };
  EXPECT_GT(cost({"--compute", "0.5"}), cost({}));
}

// Recompute keeps the inputs of blocks in place of all activations, and repeats their forward: about a third more work.
TEST(PlanCommand, CountsBlocksThatAreComputedAgain) {
  const TemporaryFolder folder;
  const std::string json = folder.path() / "plan.json";
  std::ofstream(folder.path() / "text.txt") << std::string(10000, 'a');
  const auto plan_of = [&](const std::string& blocks) {
    const auto ran = lockstep({"plan", "--config", kConfigs + "gpt_tiny_text.yaml", "--devices", "1", "--json", json,
                               "data.file=" + (folder.path() / "text.txt").string(), "parallel.recompute=" + blocks});
    EXPECT_TRUE(ran.status.ok()) << ran.err;
    return nlohmann::json::parse(read_file(json));
  };
  const auto kept = plan_of("[]");
  const auto again = plan_of("[\"blocks.*\"]");
  const auto share = [&](const char* section, const char* key) {
    return again[section][key].get<double>() / kept[section][key].get<double>();
  };
  EXPECT_LT(share("memory", "activations"), 0.6);
  EXPECT_DOUBLE_EQ(share("memory", "parameters"), 1);
  EXPECT_GT(share("time", "compute_s"), 1.15);
  EXPECT_LT(share("time", "compute_s"), 1.5);
}

TEST(PlanCommand, SaysWhichWayIsBestForEmbeddingTables) {
  const TemporaryFolder folder;
  const auto made = lockstep(
      {"data", "synthesize", "criteo", "--rows", "2000", "--scale", "0.001", "--seed", "1", "--out", folder.path()});
  ASSERT_TRUE(made.status.ok()) << made.err;
  const std::string json = folder.path() / "advice.json";
  const Words plan{"plan",
                   "--config",
                   kConfigs + "recsys/wide_and_deep_criteo.yaml",
                   "data.root=" + folder.path().string(),
                   "--devices",
                   "4",
                   "--json",
                   json};
  const auto with = [&](const Words& more) {
    auto words = plan;
    words.insert(words.end(), more.begin(), more.end());
    return lockstep(words);
  };
  const auto rows = with({});
  ASSERT_TRUE(rows.status.ok()) << rows.err;
  EXPECT_THAT(rows.out,
              AllOf(HasSubstr("4 worker(s) with 128 samples a step each"), HasSubstr("deep.weight: 200000 rows"),
                    HasSubstr("Best for the tables: data parallel, rows")));
  const auto advice = nlohmann::json::parse(read_file(json));
  EXPECT_EQ(advice["best"], "data parallel, rows");
  EXPECT_GT(advice["tables"][0]["used_rows"], 39);
  EXPECT_LT(advice["tables"][0]["used_rows"], 128 * 39);

  // Tables of a terabyte: nobody has to have the memory to ask.
  const auto servers = with({"model.rows=1000000000", "model.dim=256", "data.rows=1000000000", "data.ids=hash"});
  ASSERT_TRUE(servers.status.ok()) << servers.err;
  EXPECT_THAT(servers.out, HasSubstr("Best for the tables: parameter servers"));

  // Optimizers of whole tables have no choice: a plan as for other models.
  const auto whole = with({"model.sparse=false", "parallel.mode=auto", "optimizer.name=adam", "optimizer.groups=[]"});
  ASSERT_TRUE(whole.status.ok()) << whole.err;
  EXPECT_THAT(whole.out, AllOf(testing::Not(HasSubstr("Best for the tables")), HasSubstr("Plan for 4 devices")));
  EXPECT_GT(nlohmann::json::parse(read_file(json))["cost_s"], 0);

  const auto saved = with({"--save", folder.path() / "plan.json"});
  EXPECT_EQ(saved.status.code, 2);
  EXPECT_THAT(saved.err, HasSubstr("there is no plan to --save"));
}

TEST(PlanCommand, MistakesAreNamed) {
  const auto error_of = [](Words more) {
    Words words{"plan", "--config", kMlp};
    words.insert(words.end(), more.begin(), more.end());
    const auto ran = lockstep(words);
    EXPECT_EQ(ran.status.code, 2) << ran.err;
    return ran.err;
  };
  EXPECT_THAT(error_of({}), HasSubstr("the number of devices is missing: give --devices 16"));
  EXPECT_THAT(error_of({"--mesh", "2xmany"}), HasSubstr("--mesh takes sizes of axes such as 8, 2x8"));
  EXPECT_THAT(error_of({"--mesh", "2x2", "--devices", "5"}), HasSubstr("--mesh 2x2 has 4 devices, but --devices is 5"));
  EXPECT_THAT(error_of({"--devices", "0"}), HasSubstr("--devices"));
  EXPECT_THAT(error_of({"--devices", "2", "--compare", "magic"}), HasSubstr("magic"));
}

TEST(CalibrateCommand, WritesAClusterThatPlanReads) {
  const TemporaryFolder folder;
  const std::string cluster = folder.path() / "cluster.yaml";
  const auto measured =
      under_lockstep_run(2, {LOCKSTEP_BINARY, "calibrate", "--out", cluster, "--rounds", "1", "--repeat", "2"});
  ASSERT_TRUE(measured.status.ok()) << measured.err;
  EXPECT_THAT(read_file(cluster), AllOf(HasSubstr("matmul_flops"), HasSubstr("latency"), HasSubstr("2 rank(s)")));
  EXPECT_THAT(measured.out,
              AllOf(HasSubstr("Medians of 2 measurements"), ContainsRegex("# +device.matmul_flops +[0-9]+ %")));
  const auto ran = lockstep({"plan", "--config", kMlp, "--devices", "2", "--cluster", cluster});
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("fc1"));
}

TEST(CalibrateCommand, MeasuresProductsInTheDtypeOfTheRun) {
  const TemporaryFolder folder;
  const std::string cluster = folder.path() / "cluster.yaml";
  const auto ran =
      lockstep({"calibrate", "--out", cluster, "--rounds", "1", "--repeat", "1", "--autocast", "bfloat16"});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(read_file(cluster), AllOf(HasSubstr("on the CPU"), HasSubstr("products of BFloat16")));
}

TEST(CalibrateCommand, SaysWhyItCannotMeasureADevice) {
  const TemporaryFolder folder;
  const auto ran = lockstep({"calibrate", "--out", folder.path() / "gpus.yaml", "--device", "cuda"});
  if (ran.status.ok()) GTEST_SKIP() << "this machine has a CUDA device";
  EXPECT_EQ(ran.status.code, 2);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("finds no CUDA device"), HasSubstr("use --device cpu")));
}

TEST(CalibrateCommand, RefusesAPlaceThatCannotBeBeforeItMeasures) {
  const TemporaryFolder folder;
  for (const auto& [out, words] :
       {std::pair<std::string, std::string>("/nowhere/cluster.yaml", "/nowhere does not exist"),
        {folder.path().string(), "is a folder"}}) {
    const auto ran = lockstep({"calibrate", "--out", out});
    EXPECT_EQ(ran.status.code, 2) << ran.err;
    EXPECT_THAT(ran.err, AllOf(HasSubstr("--out"), HasSubstr(out), HasSubstr(words)));
  }
}

}  // namespace
}  // namespace lockstep::test
