#include <algorithm>
#include <string>
#include <vector>

#include "base/expect_error.h"
#include "base/sample_config.h"

namespace lockstep {
namespace {

using test::SampleConfig;

SampleConfig read_sample(const std::string& text) { return read_config<SampleConfig>(parse_config(text, "run.yaml")); }

TEST(ConfigPrint, WritesDefaultsAsYaml) {
  EXPECT_EQ(print_config(SampleConfig{}),
            "root: \"\"\n"
            "epochs: 3\n"
            "hidden: [64, 32]\n"
            "mean: [0.5]\n"
            "files: []\n"
            "seed: ~\n"
            "note: ~\n"
            "shuffle: ~\n"
            "transforms: ~\n"
            "optimizer:\n"
            "  name: momentum\n"
            "  lr: 0.1\n"
            "  momentum: 0.9\n"
            "  clip_norm: ~\n"
            "  nesterov: false\n"
            "  warmup: ~\n");
}

TEST(ConfigPrint, ReadsBackEqual) {
  SampleConfig c;
  c.root = "a: b # c";
  c.hidden = {};
  c.mean = {0.1, 1e-300, 1.0 / 3, -0.0, 1e22};
  c.files = {"", "null", "1", "yes", "~", "two\nlines", " blank ", "'q'", "\"", "- x", "ä", "@a", "{b"};
  c.seed = INT64_MAX;
  c.note = "null";
  c.shuffle = false;
  c.transforms = read_sample("root: x\ntransforms: [Crop: {size: 32, mode: '1'}, Flip]\n").transforms;
  c.optimizer.lr = 1e-5;
  c.optimizer.warmup = test::SampleWarmup{0};
  const std::string text = print_config(c);
  const SampleConfig back = read_sample(text);
  EXPECT_EQ(back.root, c.root);
  EXPECT_EQ(back.hidden, c.hidden);
  EXPECT_EQ(back.mean, c.mean);
  EXPECT_EQ(back.files, c.files);
  EXPECT_EQ(back.seed, c.seed);
  EXPECT_EQ(back.note, c.note);
  EXPECT_EQ(back.shuffle, c.shuffle);
  EXPECT_EQ(back.optimizer, c.optimizer);
  EXPECT_EQ(print_config(back), text);
}

TEST(ConfigPrint, ListsEveryKeyOnce) {
  const auto keys = list_keys<SampleConfig>();
  std::vector<std::string> paths;
  for (const auto& key : keys) paths.push_back(key.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"root", "epochs", "hidden", "mean", "files", "seed", "note", "shuffle",
                                             "transforms", "optimizer", "optimizer.name", "optimizer.lr",
                                             "optimizer.momentum", "optimizer.clip_norm", "optimizer.nesterov",
                                             "optimizer.warmup", "optimizer.warmup.steps"}));
}

TEST(ConfigPrint, ListsTypeDefaultLimitsAndMeaning) {
  const auto keys = list_keys<SampleConfig>();
  const auto line = [&](const std::string& path) {
    const auto key = std::find_if(keys.begin(), keys.end(), [&](const ConfigKey& k) { return k.path == path; });
    return key == keys.end() ? "" : key->type + "|" + key->default_value + "|" + key->allowed + "|" + key->doc;
  };
  EXPECT_EQ(line("root"), "text|required||folder of the data");
  EXPECT_EQ(line("epochs"), "integer|3|from 1 to 1000|passes over the data");
  EXPECT_EQ(line("hidden"), "list of integers|[64, 32]|at least 1|widths");
  EXPECT_EQ(line("files"), "list of texts|[]||names");
  EXPECT_EQ(line("seed"), "integer, may be null|~|at least 0|of all random numbers");
  EXPECT_EQ(line("shuffle"), "true/false, may be null|~||new order each epoch");
  EXPECT_EQ(line("transforms"), "any YAML|~||what happens to a picture");
  EXPECT_EQ(line("optimizer"), "section|||how to step");
  EXPECT_EQ(line("optimizer.name"), "text|momentum|sgd | momentum | adam|the update rule");
  EXPECT_EQ(line("optimizer.momentum"), "number|0.9|at least 0 and below 1|share of the last step");
  EXPECT_EQ(line("optimizer.warmup"), "section, may be null|~||a slow start");
}

}  // namespace
}  // namespace lockstep
