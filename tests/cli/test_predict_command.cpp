// `lockstep predict`: what a model says of each sample, the same on any number of ranks.
#include "cli/program.h"

#include <lockstep/base/crypto.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <sstream>

namespace lockstep::test {
namespace {

using testing::HasSubstr;

std::vector<nlohmann::json> predictions_in(const std::string& lines) {
  std::vector<nlohmann::json> all;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) all.push_back(nlohmann::json::parse(line));
  return all;
}

Captured predict_on(int ranks, Words words) {
  words.insert(words.begin(), "predict");
  if (ranks == 1) return lockstep(words);
  words.insert(words.begin(), LOCKSTEP_BINARY);
  return under_lockstep_run(ranks, words);
}

TEST(PredictCommand, GivesClassAndProbabilityOfEachPicture) {
  const Workbench bench;
  ASSERT_TRUE(run_program(bench.train()).status.ok());
  const auto result = nlohmann::json::parse(read_file(bench.work_dir() / "result.json"));
  const auto file = bench.path() / "predictions.jsonl";
  const Words words = {"--config", bench.config(), "--weights", bench.work_dir() / "model.safetensors",
                       "--json",   file.string()};
  std::vector<nlohmann::json> alone;
  for (const int ranks : {1, 2, 3}) {
    SCOPED_TRACE(ranks);
    std::filesystem::remove(file);
    const auto ran = predict_on(ranks, words);
    ASSERT_TRUE(ran.status.ok()) << ran.err;
    const auto predictions = predictions_in(read_file(file));
    ASSERT_EQ(predictions.size(), result["eval_samples"].get<std::size_t>());
    if (ranks == 1) alone = predictions;
    for (std::size_t i = 0; i < predictions.size(); ++i) {
      EXPECT_EQ(predictions[i]["index"], i);
      EXPECT_EQ(predictions[i]["class"], alone[i]["class"]);
      EXPECT_NEAR(predictions[i]["probability"].get<double>(), alone[i]["probability"].get<double>(), 1e-5);
      EXPECT_GE(predictions[i]["probability"], 0.1);
      EXPECT_LE(predictions[i]["probability"], 1.0);
    }
  }
}

TEST(PredictCommand, InTheGlobalViewTheSame) {
  const Workbench bench;
  ASSERT_TRUE(run_program(bench.train()).status.ok());
  const auto predicted = [&](const std::string& mode) {
    const auto ran = predict_on(2, {"--config", bench.config(), "--weights", bench.work_dir() / "model.safetensors",
                                    "--json", bench.path() / mode, "parallel.mode=" + mode});
    EXPECT_TRUE(ran.status.ok()) << ran.err;
    return predictions_in(read_file(bench.path() / mode));
  };
  const auto mirrored = predicted("data_parallel"), global = predicted("semi_auto");
  ASSERT_EQ(mirrored.size(), global.size());
  for (std::size_t i = 0; i < mirrored.size(); ++i) EXPECT_EQ(mirrored[i]["class"], global[i]["class"]);
}

TEST(PredictCommand, LeavesAFolderAndALanguageModelsText) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "abcd";
  write_file(folder.path() / "text", text);
  const Words keys = {"--config",
                      LOCKSTEP_SOURCE_DIR "/configs/gpt_tiny_text.yaml",
                      "data.file=" + (folder.path() / "text").string(),
                      "system.work_dir=" + (folder.path() / "out").string(),
                      "data.length=16",
                      "model.context=16",
                      "model.width=32",
                      "task.sample_bytes=8"};
  Words train = {"train", "train.epochs=40", "optimizer.lr=0.01", "scheduler.warmup_steps=2",
                 "data.global_batch_size=8"};
  train.insert(train.end(), keys.begin(), keys.end());
  const auto trained = lockstep(train);
  ASSERT_TRUE(trained.status.ok()) << trained.err;
  for (const std::string mode : {"data_parallel", "semi_auto"}) {
    Words words = keys;
    words.insert(words.end(), {"--weights", folder.path() / "out/model.safetensors", "--out", folder.path() / mode,
                               "parallel.mode=" + mode});
    const auto ran = predict_on(2, words);
    ASSERT_TRUE(ran.status.ok()) << ran.err;
    const auto predictions = predictions_in(read_file(folder.path() / mode / "predictions.jsonl"));
    ASSERT_GT(predictions.size(), 1U);
    // Windows of 16 letters begin with an a, and what comes after them is known.
    for (const auto& each : predictions) EXPECT_EQ(each["text"], "abcdabcd");
    EXPECT_TRUE(std::filesystem::exists(folder.path() / mode / "predictions.safetensors"));
  }
  // Prompts of other lengths than the context, and texts that are drawn: the same wherever they are written.
  write_file(folder.path() / "prompts.jsonl", "{\"prompt\": \"c\"}\n{\"prompt\": [97, 98]}\n{\"prompt\": \"c\"}\n");
  const auto written = [&](int ranks, const Words& more) {
    Words words = {"--weights", folder.path() / "out", "--json", folder.path() / "lines"};
    words.insert(words.end(), more.begin(), more.end());
    const auto ran = predict_on(ranks, words);
    EXPECT_TRUE(ran.status.ok()) << ran.err;
    return predictions_in(read_file(folder.path() / "lines"));
  };
  const auto two = written(1, {"--prompt", "ab", "--prompt=cdabcdabcdabcdabcdabcda"});
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0]["prompt"], "ab");
  EXPECT_EQ(two[1]["prompt"], "cdabcdabcdabcdabcdabcda");
  EXPECT_EQ(two[1]["text"], "bcdabcda");
  const auto prompts = (folder.path() / "prompts.jsonl").string();
  const auto drawn = written(1, {"--prompts", prompts, "task.temperature=30", "task.top_k=200"});
  ASSERT_EQ(drawn.size(), 3U);
  EXPECT_EQ(drawn[1]["prompt"], "[97,98]");
  EXPECT_NE(drawn[0]["text"], drawn[2]["text"]) << "equal prompts are written on in different ways";
  EXPECT_EQ(written(2, {"--prompts", prompts, "task.temperature=30", "task.top_k=200"}), drawn);
  EXPECT_EQ(written(2, {"--prompts", prompts, "task.temperature=30", "task.top_k=200", "parallel.mode=semi_auto"}),
            drawn);
  EXPECT_NE(written(1, {"--prompts", prompts, "task.temperature=30", "task.text_seed=1"}), drawn);
  const auto greedy = lockstep({"predict", "--weights", folder.path() / "out", "--prompt", "a", "task.top_k=3"});
  EXPECT_EQ(greedy.status.code, 2);
  EXPECT_THAT(greedy.err, testing::AllOf(HasSubstr("task.top_k"), HasSubstr("is 3"), HasSubstr("task.temperature")));
  const auto seeded = lockstep({"predict", "--weights", folder.path() / "out", "--prompt", "a", "system.seed=3"});
  EXPECT_TRUE(seeded.status.ok()) << seeded.err;
  EXPECT_THAT(seeded.out + seeded.err,
              HasSubstr("system.seed changes nothing here: texts are drawn with task.text_seed"));
}

constexpr const char* kDark =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNgYGAAAAAEAAH2FzhVAAAAAElFTkSuQmCC";
constexpr const char* kLight =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4//8/AAX+Av4N70a4AAAAAElFTkSuQmCC";

void write_picture(const std::filesystem::path& file, const char* base64) {
  std::filesystem::create_directories(file.parent_path());
  write_file(file, from_base64(base64).value());
}

/// Pictures of one pixel in two classes, and a model that tells them apart.
class PredictedPictures : public testing::Test {
 protected:
  PredictedPictures() {
    for (int i = 0; i < 4; ++i) {
      write_picture(path() / ("data/train/night/" + std::to_string(i) + ".png"), kDark);
      write_picture(path() / ("data/train/day/" + std::to_string(i) + ".png"), kLight);
    }
    write_file(path() / "run.yaml",
               "model: {name: mlp, hidden: [], num_classes: 2}\n"
               "data: {name: image_folder, root: " +
                   path().string() +
                   "/data, eval: '', batch_size: 2, remainder: exact, train_transforms: [to_tensor]}\n"
                   "optimizer: {name: sgd, lr: 0.5}\n"
                   "train: {epochs: 20}\n"
                   "system: {work_dir: " +
                   (path() / "out").string() + "}\n");
    const auto trained = lockstep({"train", "--config", path() / "run.yaml"});
    EXPECT_TRUE(trained.status.ok()) << trained.err;
    write_picture(path() / "new/a,b.png", kLight);
    write_file(path() / "new/broken.png", "no picture");
    write_picture(path() / "new/deep/er/c.png", kDark);
    write_picture(path() / "new/.hidden/d.png", kDark);
  }

  std::filesystem::path path() const { return folder_.path(); }
  std::string in(const std::string& name) const { return (path() / name).string(); }
  Words words(const Words& more) const {
    Words all = {"--weights", in("out")};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(PredictedPictures, HaveTheirFilesTheNamesOfTheirClassesAndWhyOthersWereLeftOut) {
  for (const int ranks : {1, 2}) {
    SCOPED_TRACE(ranks);
    const auto ran = predict_on(ranks, words({"--images", in("new"), "--subfolders", "--on-error", "skip", "--top", "2",
                                              "--json", in("lines"), "--csv", in("table")}));
    ASSERT_TRUE(ran.status.ok()) << ran.err;
    const auto lines = predictions_in(read_file(in("lines")));
    ASSERT_EQ(lines.size(), 3U);
    EXPECT_EQ(lines[0]["file"], in("new/a,b.png"));
    EXPECT_EQ(lines[0]["class_name"], "day");
    EXPECT_EQ(lines[0]["class"], 0);
    EXPECT_EQ(lines[0]["top"][0]["class_name"], "day");
    EXPECT_EQ(lines[0]["top"][1]["class_name"], "night");
    EXPECT_EQ(lines[0]["top"][0]["probability"], lines[0]["probability"]);
    EXPECT_EQ(lines[1]["file"], in("new/broken.png"));
    EXPECT_THAT(lines[1]["left_out"].get<std::string>(), HasSubstr("is no JPEG, PNG, WebP, BMP or TIFF"));
    EXPECT_FALSE(lines[1].contains("class"));
    EXPECT_EQ(lines[2]["file"], in("new/deep/er/c.png"));
    EXPECT_EQ(lines[2]["class_name"], "night");
    const auto table = lines_of(read_file(in("table")));
    ASSERT_EQ(table.size(), 4U);
    EXPECT_EQ(table[0],
              "index,file,class,class_name,probability,top_1,top_1_name,top_1_probability,top_2,top_2_name,"
              "top_2_probability,left_out");
    EXPECT_THAT(table[1], testing::StartsWith("0,\"" + in("new/a,b.png") + "\",0,day,0."));
    EXPECT_THAT(table[2], testing::StartsWith("1," + in("new/broken.png") + ",,,,,,,,,,"));
    EXPECT_THAT(table[3], testing::StartsWith("2," + in("new/deep/er/c.png") + ",1,night,0."));
  }
}

TEST_F(PredictedPictures, AreThoseOfAListOrOfAFolderAlone) {
  const auto piped =
      run_program({"/bin/sh", "-c", "printf '%s\\n' \"$1\" \"$2\" | \"$0\" predict --weights \"$3\" --images -",
                   LOCKSTEP_BINARY, in("new/deep/er/c.png"), in("new/a,b.png"), in("out")});
  ASSERT_TRUE(piped.status.ok()) << piped.err;
  const auto begin = piped.out.find("{\"index\"");
  ASSERT_NE(begin, std::string::npos) << piped.out;
  const auto lines = predictions_in(piped.out.substr(begin));
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["class_name"], "night");
  EXPECT_EQ(lines[1]["class_name"], "day");

  // Names of classes without the training data.
  std::filesystem::remove_all(in("data"));
  write_file(in("names"), "light\ndark\n");
  const auto named = lockstep({"predict", "--weights", in("out"), "--images", in("new"), "--classes", in("names"),
                               "data.on_error=skip", "--json", in("lines")});
  ASSERT_TRUE(named.status.ok()) << named.err;
  const auto of_folder = predictions_in(read_file(in("lines")));
  ASSERT_EQ(of_folder.size(), 2U);
  EXPECT_EQ(of_folder[0]["class_name"], "light");
  EXPECT_TRUE(of_folder[1].contains("left_out"));
  EXPECT_THAT(named.err + named.out, HasSubstr("1 folders in it are not searched (--subfolders)"));

  const auto fails = [&](Words more, const std::string& answer) {
    more.insert(more.begin(), {"predict", "--weights", in("out")});
    const auto ran = lockstep(more);
    EXPECT_FALSE(ran.status.ok());
    EXPECT_THAT(ran.err, HasSubstr(answer));
  };
  write_file(in("names"), "light\n");
  fails({"--images", in("new"), "--on-error", "skip", "--classes", in("names")},
        "there are 1 names of classes, and the model has 2 classes");
  fails({"--images", in("new")}, "new/broken.png is no JPEG, PNG, WebP, BMP or TIFF");
  fails({"--images", in("new"), "--prompt", "x"}, "--images and --prompt are both given");
  fails({"--prompt", "x"}, "prompts are for language models");
  fails({"--subfolders"}, "--subfolders is for the folder of --images DIR");
  fails({"--images-from", in("none")}, "cannot read " + in("none"));
}

TEST(PredictCommand, GivesTheKeysOfATablesRowsBesideItsNumbers) {
  const TemporaryFolder folder;
  const auto in = [&](const std::string& name) { return (folder.path() / name).string(); };
  write_file(in("rows.csv"), "index,customer,x,sum,less\n7,\"Smith, J\",1,2,0\n8,Öz,2,4,1\n9,x,3,6,2\n10,x,bad,8,2\n");
  write_file(in("run.yaml"),
             "model: {name: mlp, hidden: [], num_classes: 2}\ntask: {name: regression}\n"
             "data: {name: csv, train: " +
                 in("rows.csv") + ", eval: " + in("rows.csv") +
                 ", numbers: [x], targets: [sum, less], keys: [customer, index], batch_size: 3, on_error: skip}\n"
                 "optimizer: {name: sgd, lr: 0.1}\ntrain: {epochs: 1}\nsystem: {work_dir: " +
                 in("out") + "}\n");
  // The one table is read for training, for its statistics and for the evaluation.
  const auto expect_once = [](const std::string& shown) {
    EXPECT_EQ(shown.find("1 of 4 rows of"), shown.rfind("1 of 4 rows of")) << shown;
    EXPECT_THAT(shown, HasSubstr("1 of 4 rows of"));
  };
  const auto trained = lockstep({"train", "--config", in("run.yaml")});
  ASSERT_TRUE(trained.status.ok()) << trained.err;
  expect_once(trained.out);
  expect_once(lockstep({"eval", "--weights", in("out/model.safetensors")}).err);
  const auto ran =
      predict_on(2, {"--weights", in("out/model.safetensors"), "--json", in("lines"), "--csv", in("table")});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  expect_once(ran.err);
  const auto lines = predictions_in(read_file(in("lines")));
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0]["customer"], "Smith, J");
  EXPECT_EQ(lines[1]["input_index"], "8");
  EXPECT_EQ(lines[1]["values"].size(), 2U);
  const auto table = lines_of(read_file(in("table")));
  ASSERT_EQ(table.size(), 4U);
  EXPECT_EQ(table[0], "index,line,customer,input_index,values_1,values_2");
  EXPECT_THAT(table[1], testing::StartsWith("0,2,\"Smith, J\",7,"));
  EXPECT_THAT(table[2], testing::StartsWith("1,3,Öz,8,"));
}

/// A model of prices by area and city, and the files of its user.
class PredictedTable : public testing::Test {
 protected:
  PredictedTable() {
    for (const auto* name : {"train.csv", "eval.csv"}) write_file(path(name), rows("Rome", "Paris"));
    write_file(path("run.yaml"),
               "model: {name: mlp, hidden: [4], num_classes: 1}\ntask: {name: regression}\n"
               "data: {name: csv, train: " +
                   path("train.csv") + ", eval: " + path("eval.csv") +
                   ", numbers: [area], categories: [city], targets: [price], batch_size: 4}\n"
                   "optimizer: {name: sgd, lr: 0.000000001}\ntrain: {epochs: 1}\n"
                   "system: {work_dir: " +
                   path("out") + "}\n");
  }

  static std::string rows(const std::string& one, const std::string& other, int shift = 0) {
    std::string text = "area,city,price\n";
    for (int i = 0; i < 8; ++i) {
      text += std::to_string(50 + 10 * i + shift) + "," + (i % 2 == 0 ? one : other) + "," +
              std::to_string(1000 * (50 + 10 * i)) + "\n";
    }
    return text;
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  Captured train(const Words& more = {}) const {
    Words words = {"train", "--config", path("run.yaml")};
    words.insert(words.end(), more.begin(), more.end());
    return lockstep(words);
  }
  Captured on_run(const std::string& command, const Words& more = {}) const {
    Words words = {command, "--weights", path("out"), "--json", path("lines")};
    words.insert(words.end(), more.begin(), more.end());
    std::filesystem::remove(path("lines"));
    return lockstep(words);
  }
  std::string predicted(const Words& more = {}) const {
    const auto ran = on_run("predict", more);
    EXPECT_TRUE(ran.status.ok()) << ran.err;
    return ran.status.ok() ? read_file(path("lines")) : std::string();
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(PredictedTable, IsReadAsTheRunHasLearnedWhateverBecomesOfItsFile) {
  const auto trained = train();
  ASSERT_TRUE(trained.status.ok()) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("data.standardize_targets=true")) << "prices are large";
  const auto before = predicted();
  ASSERT_EQ(predictions_in(before).size(), 8U);
  const auto hash = nlohmann::json::parse(read_file(path("out/result.json")))["params_sha256"];

  write_file(path("train.csv"), rows("Rome", "Paris", 500));
  EXPECT_EQ(predicted(), before) << "the training file has other numbers";
  write_file(path("train.csv"), rows("Rome", "Madrid"));
  EXPECT_EQ(predicted(), before) << "the training file has other words";
  std::filesystem::remove(path("train.csv"));
  EXPECT_EQ(predicted(), before) << "the training file has gone";
  EXPECT_EQ(nlohmann::json::parse(read_file(path("out/result.json")))["params_sha256"], hash);

  // A run that goes on.
  write_file(path("train.csv"), rows("Rome", "Paris", 500));
  const auto kept = read_file(path("out/table.json"));
  const auto more = train({"train.epochs=2"});
  ASSERT_TRUE(more.status.ok()) << more.err;
  EXPECT_THAT(more.out, HasSubstr("data.train has changed since the run began (column area: mean 85"));
  EXPECT_EQ(read_file(path("out/table.json")), kept);

  // Weights without the folder of their run.
  write_file(path("alone.safetensors"), read_file(path("out/model.safetensors")));
  const auto alone = lockstep({"predict", "--config", path("run.yaml"), "--weights", path("alone.safetensors")});
  ASSERT_TRUE(alone.status.ok()) << alone.err;
  EXPECT_THAT(alone.err, HasSubstr("no table.json"));

  // In another folder it begins anew.
  ASSERT_TRUE(train({"system.work_dir=" + path("other")}).status.ok());
  EXPECT_NE(read_file(path("other/table.json")), kept);
}

TEST_F(PredictedTable, TakesRowsWithoutTargetsAndNamesWordsThatAreNew) {
  ASSERT_TRUE(train().status.ok());
  write_file(path("new.csv"), "city,area\nParis,70\nRome,90\n");
  const auto lines = predictions_in(predicted({"data.eval=" + path("new.csv")}));
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_TRUE(lines[0].contains("values"));
  EXPECT_EQ(on_run("eval", {"data.eval=" + path("new.csv")}).status.code, 2) << "there is nothing to compare with";

  write_file(path("new.csv"), "city,area\nParis,70\nMadrid,90\n");
  const auto refused = on_run("predict", {"data.eval=" + path("new.csv")});
  EXPECT_FALSE(refused.status.ok());
  EXPECT_THAT(refused.err, testing::AllOf(HasSubstr("new.csv:3"), HasSubstr("column city has 'Madrid'"),
                                          HasSubstr("there were Paris, Rome"), HasSubstr("data.unknown=zeros"),
                                          HasSubstr("data.on_error=skip"), testing::Not(HasSubstr("weights"))));
  EXPECT_EQ(predictions_in(predicted({"data.eval=" + path("new.csv"), "data.unknown=zeros"})).size(), 2U);
  write_file(path("new.csv"), "city,area\nMadrid,70\nParis,90\n");
  const auto rest = predictions_in(predicted({"data.eval=" + path("new.csv"), "data.on_error=skip"}));
  ASSERT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest[0].value("line", ""), "3") << "which row it is, as the samples are counted without those left out";
  const auto other = on_run("predict", {"data.categories=[]"});
  EXPECT_EQ(other.status.code, 2);
  EXPECT_THAT(other.err, HasSubstr("the weights were trained with [city]"));
}

// An evaluation of random layers measures nothing.
TEST_F(PredictedTable, IsRefusedWhereLayersWouldBeRandom) {
  ASSERT_TRUE(train().status.ok());
  for (const auto& [key, name] : {std::pair{"model.weights_strict=false", "fc1.weight is Float"},
                                  {"model.weights_except=[fc1.weight]", "leaves out 1 tensors: fc1.weight"}}) {
    for (const auto* command : {"eval", "predict"}) {
      const auto ran = on_run(command, {"model.hidden=[5]", key});
      EXPECT_EQ(ran.status.code, 2) << key;
      EXPECT_THAT(ran.err, testing::AllOf(HasSubstr(name), HasSubstr("random values"),
                                          testing::Not(HasSubstr("set model.weights_except"))));
    }
  }
}

TEST_F(PredictedTable, IsRefusedWhereWeightsAreNotNumbers) {
  ASSERT_TRUE(train().status.ok());
  auto weights = read_file(path("out/model.safetensors"));
  weights.replace(weights.size() - 4, 4, std::string("\0\0\xc0\x7f", 4));
  write_file(path("out/model.safetensors"), weights);
  for (const auto* command : {"eval", "predict"}) {
    const auto ran = on_run(command, {});
    EXPECT_EQ(ran.status.code, 2) << ran.err;
    EXPECT_THAT(ran.err, testing::AllOf(HasSubstr("model.safetensors"), HasSubstr("are NaN or infinite")));
  }
}

TEST(PredictCommand, SaysWhatIsMissing) {
  const Workbench bench;
  for (const auto& [words, answer] :
       {std::pair{Words{}, "--config FILE is missing"},
        {Words{"--config", bench.config()}, "--weights FILE is missing"},
        {Words{"--config", bench.config(), "--weights", "/no.safetensors"}, "/no.safetensors"}}) {
    const auto ran = predict_on(1, words);
    EXPECT_EQ(ran.status.code, 2) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(answer));
  }
}

}  // namespace
}  // namespace lockstep::test
