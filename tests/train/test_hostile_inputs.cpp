// Whatever stands in what a user gives, an error about it can be read to its end.
#include <gtest/gtest.h>
#include <lockstep/base/config.h>
#include <lockstep/base/environment.h>
#include <lockstep/base/json.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/plan/cluster.h>
#include <lockstep/plan/plan.h>
#include <lockstep/samples/criteo.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/samples/table.h>
#include <lockstep/samples/text.h>
#include <lockstep/state/pth/load.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/state/safetensors_header.h>
#include <lockstep/state/sharded/index.h>
#include <lockstep/state/weights_file.h>
#include <lockstep/train/config.h>
#include <lockstep/world/detect.h>
#include <lockstep/world/host_file.h>
#include <lockstep/world/rank_table.h>
#include <lockstep/world/world.h>

#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/hostile_text.h"

namespace lockstep::test {
namespace {

using data::Split;

class HostileInputs : public testing::Test {
 protected:
  std::string write(const std::string& text, const char* name = "file") const {
    const auto file = (folder_.path() / name).string();
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }

  void check_table(std::string_view before, std::string_view after, const samples::TableOptions& given) const {
    expect_readable_errors("CSV", before, after, {"train.csv"}, [&](const std::string& text) {
      auto options = given;
      options.train = write(text, "train.csv");
      samples::load_table(options, Split::train);
    });
  }

  TemporaryFolder folder_;
};

TEST_F(HostileInputs, Tables) {
  samples::TableOptions options;
  options.numbers = {"area"};
  options.targets = {"price"};
  check_table("area,price\n1,2\n", ",3\n", options);
  check_table("area,price\n\"", "\" ,3\n", options);
  check_table("area,price\n\"", ",3\n", options);
  check_table("area,", "\n1,2\n", options);
  check_table("", "", options);
  check_table("area,price\n1,2,", "\n", options);
  options.categories = {"city"};
  const auto eval = options;
  expect_readable_errors("CSV of evaluation", "area,price,city\n1,2,", "\n", {"eval.csv:2", "data.unknown"},
                         [&](const std::string& text) {
                           auto both = eval;
                           both.train = write("area,price,city\n1,2,Rome\n", "train.csv");
                           both.eval = write(text, "eval.csv");
                           samples::load_table(both, Split::test);
                         });
}

TEST_F(HostileInputs, ListsOfPictures) {
  for (const auto& [before, after] : {std::pair("", ""), std::pair("a.jpg\t", ""), std::pair("a.jpg\t1\n", "\n"),
                                      std::pair("", "\t1\n"), std::pair("a.jpg\tcat\nb.jpg\t", "\n")}) {
    expect_readable_errors("list of pictures", before, after, {}, [&](const std::string& text) {
      samples::ImageListOptions options;
      options.root = folder_.path().string();
      options.train = write(text, "train.txt");
      const auto list = samples::load_image_list(options, Split::train);
      for (std::int64_t i = 0; i < list->size(); ++i) list->get(i, samples::Chance(0, 0, i));
    });
  }
}

TEST_F(HostileInputs, TextsAndStreams) {
  for (const auto* format : {"jsonl", "lines"}) {
    expect_readable_errors("stream", "{\"text\": \"a\"}\n{\"text", "\n", {"part"}, [&](const std::string& text) {
      samples::TokenStreamOptions options;
      options.train = {write(text, "part")};
      options.format = format;
      options.vocabulary = 127;
      options.length = 2;
      const auto stream = samples::load_token_stream(options, Split::train);
      for (std::int64_t i = 0; i < std::min<std::int64_t>(stream->size(), 20); ++i) stream->get(i, {0, 0, i});
    });
  }
  expect_readable_errors("clicks", "1\t", "\t3\n", {}, [&](const std::string& text) {
    samples::CriteoOptions options;
    write(text, "train.txt");
    options.root = folder_.path().string();
    options.ids = "hash";
    const auto clicks = samples::load_criteo(options, Split::train);
    for (std::int64_t i = 0; i < clicks->size(); ++i) clicks->get(i, {0, 0, i});
  });
}

TEST_F(HostileInputs, Configurations) {
  for (const auto& [before, after] :
       {std::pair("model: {name: \"", "\"}"), std::pair("model: ", ""), std::pair("\"", "\": 1"),
        std::pair("train: {epochs: '", "'}"), std::pair("model: {name: 'a", ""), std::pair("train: {", ": 3}")}) {
    expect_readable_errors("YAML", before, after, {"run.yaml"},
                           [&](const std::string& text) { train::load_run_config(write(text, "run.yaml")); });
    expect_readable_errors("cluster", before, after, {"c.yaml"},
                           [](const std::string& text) { plan::read_cluster(parse_config(text, "c.yaml")); });
  }
  for (const auto& [before, after] : {std::pair("", ""), std::pair("train.", "=3"), std::pair("train.epochs=", "")}) {
    expect_readable_errors("override", before, after, {}, [&](const std::string& text) {
      const std::vector<std::string> overrides{text};
      train::load_run_config(write("model: {name: mlp}", "run.yaml"), overrides);
    });
  }
}

TEST_F(HostileInputs, JsonOfAllKinds) {
  for (const auto& [before, after] :
       {std::pair("", ""), std::pair("{\"weight_map\": {\"", "\": \"f\"}}"),
        std::pair("{\"weight_map\": {\"t\": \"../", "\"}}"), std::pair("{\"version\": \"", "\"}"),
        std::pair("{\"", "\": 1, \"a\": 2}"), std::pair("{\"a\": 1}", "")}) {
    expect_readable_errors("index", before, after, {"i.json"},
                           [](const std::string& text) { state::parse_shard_index(text, "i.json"); });
    expect_readable_errors("index of a sharded checkpoint", before, after, {"i.json"},
                           [](const std::string& text) { state::parse_index(text, "i.json"); });
    expect_readable_errors("plan", before, after, {}, [](const std::string& text) { plan::read_plan(text, "p.json"); });
    expect_readable_errors("rank table", before, after, {"t.json"},
                           [](const std::string& text) { parse_rank_table(text, "t.json"); });
  }
}

TEST_F(HostileInputs, Weights) {
  const auto header = [](const std::string& json) {
    std::string bytes;
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(json.size() >> (8 * i));
    return bytes + json + std::string(4, '\0');
  };
  for (const auto& [before, after] :
       {std::pair("{\"", "\": {\"dtype\": \"F3\", \"shape\": [1], \"data_offsets\": [0, 4]}}"),
        std::pair("{\"w\": {\"dtype\": \"", "\", \"shape\": [1], \"data_offsets\": [0, 4]}}"),
        std::pair("{\"w\": {\"", "\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}}"), std::pair("{", "}")}) {
    expect_readable_errors("safetensors", before, after, {"w.safetensors"}, [&](const std::string& json) {
      state::load_safetensors(write(header(json), "w.safetensors"));
    });
  }
  for (const auto& [before, after] : {std::pair("", ""), std::pair("PK\x03\x04", ""),
                                      std::pair("\x80\x02"
                                                "c",
                                                "\nb\n."),
                                      std::pair("version https://git-lfs", ""), std::pair("<html>", "")}) {
    expect_readable_errors("weights", before, after, {"w.pth"},
                           [&](const std::string& text) { state::read_weights_file(write(text, "w.pth"), {}); });
    expect_readable_errors("pth", before, after, {"w.pth"},
                           [&](const std::string& text) { state::load_pth(write(text, "w.pth")); });
  }
}

TEST_F(HostileInputs, Hosts) {
  for (const auto& [before, after] : {std::pair("a slots=", "\n"), std::pair("", "\n"), std::pair("a:", "\n"),
                                      std::pair("a slots=1 ", "=2\n"), std::pair("[", "\n")}) {
    expect_readable_errors("host file", before, after, {"hosts"},
                           [](const std::string& text) { parse_host_file(text, "hosts"); });
    expect_readable_errors("host list", before, after, {"-H"},
                           [](const std::string& text) { parse_host_list(text, "-H"); });
    expect_readable_errors("nodes", before, after, {}, [](const std::string& text) {
      detect_world(NodeList{.addresses = {text, text}, .ctrl_port = 1, .devices_per_node = 1});
    });
  }
}

TEST_F(HostileInputs, Variables) {
  const std::vector<Environment> jobs = {
      {{"RANK", "0"},
       {"WORLD_SIZE", "2"},
       {"LOCAL_RANK", "0"},
       {"LOCAL_WORLD_SIZE", "2"},
       {"MASTER_ADDR", "a"},
       {"MASTER_PORT", "1"},
       {"LOCKSTEP_INIT_METHOD", "env://"},
       {"LOCKSTEP_ENCRYPT", "0"}},
      {{"SLURM_JOB_ID", "1"},
       {"SLURM_STEP_ID", "0"},
       {"SLURM_PROCID", "0"},
       {"SLURM_NTASKS", "2"},
       {"SLURM_LOCALID", "0"},
       {"SLURM_NODEID", "0"},
       {"SLURM_STEP_NODELIST", "n[1-2]"},
       {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}},
      {{"OMPI_COMM_WORLD_RANK", "0"},
       {"OMPI_COMM_WORLD_SIZE", "2"},
       {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
       {"MASTER_ADDR", "a"},
       {"MASTER_PORT", "1"}},
      {{"MS_ROLE", "MS_WORKER"},
       {"MS_WORKER_NUM", "2"},
       {"MS_SCHED_HOST", "a"},
       {"MS_SCHED_PORT", "1"},
       {"MS_NODE_ID", "0"}},
      {{"RANK_ID", "0"}, {"RANK_SIZE", "2"}, {"RANK_TABLE_FILE", "t"}, {"DEVICE_ID", "0"}},
      {{"TF_CONFIG", "{}"}, {"SM_HOSTS", "[]"}, {"SM_CURRENT_HOST", "a"}},
      {{"PET_NNODES", "2"}, {"PET_NODE_RANK", "0"}, {"PET_NPROC_PER_NODE", "1"}, {"PET_MASTER_ADDR", "a"}},
      {{"VC_WORKER_HOSTS", "a,b"}, {"MA_NUM_HOSTS", "2"}, {"VC_TASK_INDEX", "0"}, {"MA_NUM_GPUS", "1"}},
      {{"PBS_NODEFILE", "x"}},
      {{"LSB_MCPU_HOSTS", "a 1"}},
      {{"PE_HOSTFILE", "x"}},
      {{"SLURM_JOB_NODELIST", "x"}}};
  for (const auto& job : jobs) {
    for (const auto& [name, value] : job) {
      expect_readable_errors(name, "", "", {}, [&](const std::string& text) {
        auto environment = job;
        environment[name] = text;
        detect_world(environment);
      });
      expect_readable_errors(name, "", "", {}, [&](const std::string& text) { find_allocated_hosts({{name, text}}); });
      expect_readable_errors(name, "", "", {name}, [&](const std::string& text) {
        find_integer({{name, text}}, name, 0, 9);
      });
    }
  }
}

}  // namespace
}  // namespace lockstep::test
