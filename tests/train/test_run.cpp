// Whole runs on synthetic data, as real processes.
#include <lockstep/base/config.h>
#include <lockstep/base/process.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/modes/planned_run.h>
#include <lockstep/train/output/run_files.h>
#include <lockstep/train/resources/run_data.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>

#include "base/expect_error.h"
#include "support/open_mpi.h"
#include "train/small_run.h"
#include "train/viewers/event_reader.h"

namespace lockstep::train {
namespace {

using test::cifar10;
using test::expect_words;
using test::mnist;
using test::read_file;
using test::SmallRun;

TEST(Run, LeavesEverythingItPromises) {
  const auto config = mnist().config("all");
  mnist().run(2, config);
  const auto folder = mnist().work_dir("all");
  for (const auto* name :
       {"config.yaml", "metrics.jsonl", "loss.svg", "model.safetensors", "result.json", "log/rank.0", "log/rank.1",
        "checkpoints/step_00000006.sharded/index.json", "checkpoints/step_00000012.sharded/index.json"}) {
    EXPECT_TRUE(std::filesystem::exists(folder / name)) << name;
  }
  const auto result = mnist().result("all");
  EXPECT_EQ(result["world_size"], 2);
  EXPECT_EQ(result["steps"], 12);  // 100 pictures, 16 a step, the rest dropped, two epochs
  EXPECT_EQ(result["epochs"], 2);
  EXPECT_EQ(result["backend"], "tcp");
  EXPECT_EQ(result["eval_samples"], 50);
  EXPECT_GT(result["samples_per_s"], 0.0);
  EXPECT_EQ(result["params_sha256"].get<std::string>().size(), 64u);
  EXPECT_EQ(print_config(load_run_config(folder / "config.yaml")), print_config(config));
}

TEST(Run, LogsAndMetricsAgree) {
  mnist().run(2, mnist().config("logs", {"callbacks.metrics_every=2", "callbacks.tensorboard=true"}));
  const auto folder = mnist().work_dir("logs");
  const auto lines = read_metrics(folder / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0].step, 2);
  EXPECT_EQ(lines[5].step, 12);
  EXPECT_EQ(lines[5].epoch, 2);
  EXPECT_EQ(lines[0].lr, 0.1);
  const auto loss_in_log = [&](int rank) {
    const auto log = read_file(folder / "log" / ("rank." + std::to_string(rank)));
    expect_words(log, {"epoch: 1 step: 1, loss is ", "rank " + std::to_string(rank) + " of 2", "tcp", "cpu"});
    const auto at = log.find("epoch: 1 step: 2, loss is ");
    return std::stod(log.substr(at + 26));
  };
  // The loss of the job, and not of a rank.
  for (const int rank : {0, 1}) EXPECT_NEAR(lines[0].loss, loss_in_log(rank), 1e-6);

  const auto files = test::event_files(folder / "tensorboard");
  ASSERT_EQ(files.size(), 1u) << "of rank 0 alone";
  std::map<std::string, std::map<std::int64_t, float>> curves;
  for (const auto& scalar : test::read_scalars(files.front())) curves[scalar.tag][scalar.step] = scalar.value;
  EXPECT_EQ(curves["train/loss"].size(), lines.size());
  for (const auto& line : lines) EXPECT_EQ(curves["train/loss"][line.step], static_cast<float>(line.loss));
  EXPECT_EQ(curves["evaluation/accuracy"].at(12), mnist().result("logs")["eval_accuracy"].get<float>());
}

// What TensorBoard shows of several files: of each, what comes before the step where the next begins.
TEST(Run, TensorBoardShowsOneCurveOfARunInParts) {
  const auto in_parts = [](const char* steps) {
    mnist().run(1, mnist().config("board", {"callbacks.tensorboard=true", "train.steps=" + std::string(steps)}));
  };
  in_parts("5");
  in_parts("12");
  std::map<std::int64_t, float> shown;
  for (const auto& file : test::event_files(mnist().work_dir("board") / "tensorboard")) {
    const auto begin = static_cast<std::int64_t>(test::field_of(test::read_records(file).at(1), 2).value().bits);
    shown.erase(shown.lower_bound(begin), shown.end());
    for (const auto& scalar : test::read_scalars(file)) {
      if (scalar.tag != "train/loss") continue;
      EXPECT_TRUE(shown.emplace(scalar.step, scalar.value).second) << scalar.step;
    }
  }
  const auto losses = mnist().losses("board");
  ASSERT_EQ(shown.size(), losses.size());
  for (const auto& [step, loss] : losses) EXPECT_EQ(shown[step], static_cast<float>(loss)) << step;
}

TEST(Run, TheSameSeedGivesTheSameBits) {
  mnist().run(2, mnist().config("seed_a"));
  mnist().run(2, mnist().config("seed_b", {"data.workers=3", "data.prefetch=9"}));
  mnist().run(2, mnist().config("seed_c", {"system.seed=4"}));
  EXPECT_EQ(mnist().hash("seed_a"), mnist().hash("seed_b"));
  EXPECT_NE(mnist().hash("seed_a"), mnist().hash("seed_c"));
}

TEST(Run, APatternThatMatchesNothingIsRefused) {
  for (const std::string key : {"optimizer.groups=[{match: fc9.*}]", "model.freeze=[fc9.*]"}) {
    for (const auto& outcome : mnist().outcomes(2, mnist().config("no_match", {key}))) {
      EXPECT_FALSE(outcome.ok());
      expect_words(outcome.output, {key.substr(0, key.find('=')), "fc9.*", "fc1.weight"});
    }
  }
}

TEST(Run, EverySwitchTrainsAConvolutionalNetwork) {
  const std::vector<std::string> common = {
      "model.name=resnet20", "train.steps=3", "data.batch_size=4", "optimizer.lr=0.01",
      "data.train_transforms=[random_crop: {size: 32, padding: 4}, random_horizontal_flip, rescale: {scale: 0.004}, "
      "hwc2chw]"};
  const auto run = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.begin(), common.begin(), common.end());
    cifar10().run(2, cifar10().config(name, more));
    return cifar10().result(name)["eval_loss"].get<double>();
  };
  const double plain = run("plain", {});
  EXPECT_NEAR(run("expanded", {"loss.name=cross_entropy_expand"}), plain, 1e-3);
  EXPECT_NEAR(run("channels_last", {"model.channels_last=true"}), plain, 1e-2);
  EXPECT_NEAR(run("bfloat16", {"model.autocast=bfloat16"}), plain, 0.2);
  EXPECT_TRUE(std::isfinite(run("local_buffers", {"parallel.buffers=local"})));
  EXPECT_TRUE(std::isfinite(run("adamw", {"optimizer.name=adamw", "optimizer.lr=0.001"})));
  const auto mixed = "data.train_transforms=[rand_augment, to_tensor, random_erasing, mixup: {alpha: 0.2}, cutmix]";
  EXPECT_TRUE(std::isfinite(run("mixed", {mixed, "data.eval_transforms=[to_tensor]"})));
}

TEST(Run, ShowsTheLossLinesOfRankZeroOnTheConsole) {
  const auto outcomes = mnist().outcomes(2, mnist().config("console", {"train.epochs=1"}));
  test::expect_all_ok(outcomes);
  expect_words(outcomes[0].output, {"\nepoch: 1 step: 1, loss is ", "\nepoch: 1 step: 6, loss is ", "samples/s",
                                    "evaluation after epoch 1: accuracy ", "rank 0 of 2", "backend tcp, device cpu"});
  EXPECT_EQ(outcomes[0].output.find('\r'), std::string::npos);
  EXPECT_EQ(outcomes[1].output, "");
  const auto all =
      mnist().outcomes(2, mnist().config("console_all", {"train.epochs=1", "callbacks.console_ranks=all"}));
  expect_words(all[1].output, {"rank 1 of 2", "\nepoch: 1 step: 1, loss is "});
}

// Pictures, metrics and event files only inform: whatever is in their way, the run has its result.
TEST(Run, WhatOnlyInformsEndsNoRun) {
  const std::vector<std::string> overrides{
      "callbacks.tensorboard=true", "train.epochs=1",
      "callbacks.use=[gradient_norms: {every: 1}, profiler: {from_step: 1, steps: 2}, best_checkpoints]"};
  mnist().run(2, mnist().config("informed", overrides));
  const auto folder = mnist().work_dir("not_informed");
  for (const auto* name : {"loss.svg", "metrics.jsonl", "gradient_norms.jsonl"}) {
    std::filesystem::create_directories(folder / name);
  }
  std::ofstream(folder / "tensorboard") << "a file";
  const auto outcomes = mnist().outcomes(2, mnist().config("not_informed", overrides));
  test::expect_all_ok(outcomes);
  for (const auto* name : {"loss.svg", "metrics.jsonl", "gradient_norms.jsonl", "tensorboard/"}) {
    expect_words(outcomes[0].output, {fmt::format("warning: training goes on without {}", name)});
  }
  EXPECT_EQ(mnist().hash("not_informed"), mnist().hash("informed"));
}

TEST(Run, AFolderInThePlaceOfAResultIsSaidBeforeTheWork) {
  std::filesystem::create_directories(mnist().work_dir("blocked") / "result.json");
  const auto outcomes = mnist().outcomes(1, mnist().config("blocked"));
  EXPECT_FALSE(outcomes[0].ok());
  expect_words(outcomes[0].output, {"result.json is a folder"});
  EXPECT_EQ(outcomes[0].output.find("epoch: 1"), std::string::npos);
}

/// A layer that its module does not register.
struct Unregistered : torch::nn::Module {
  torch::nn::Linear layer{784, 10};
  at::Tensor forward(const at::Tensor& pictures) { return layer->forward(pictures.flatten(1)); }
};

std::vector<test::Outcome> run_of(const ResolvedRun& config, const Program& program) {
  return test::rank_outcomes(1, SmallRun::small_rank_options(), [&](test::Rank& rank) {
    auto world = rank.world();
    world.rendezvous = Rendezvous::alone;
    run_training(config, program, world);
  });
}

at::Tensor loss_of_unregistered(Unregistered& module, const samples::Batch& batch) {
  return torch::cross_entropy_loss(module.forward(batch["pictures"]), batch["labels"]);
}

TEST(Run, AModelWithoutRegisteredLayersIsRefused) {
  auto config = mnist().config("unregistered");
  const auto outcomes = run_of(config, {.model = [] { return std::make_shared<Unregistered>(); },
                                        .task = make_task<Unregistered>(loss_of_unregistered)});
  EXPECT_FALSE(outcomes[0].ok());
  expect_words(outcomes[0].output,
               {"the model has no parameters", "Float [10, 784]", "Float [10]", "register_module()"});
}

TEST(Run, TensorsBesideTheModelAreNamed) {
  struct HalfRegistered : Unregistered {
    HalfRegistered() { scale = register_parameter("scale", torch::ones({1})); }
    at::Tensor scale;
  };
  const auto outcomes =
      run_of(mnist().config("half"),
             {.model = [] { return std::make_shared<HalfRegistered>(); },
              .task = make_task<HalfRegistered>([](HalfRegistered& module, const samples::Batch& batch) {
                return loss_of_unregistered(module, batch) * module.scale.sum();
              })});
  EXPECT_TRUE(outcomes[0].ok()) << outcomes[0].output;
  expect_words(outcomes[0].output,
               {"warning: the loss has gradients for 2 tensors that are no parameters of the model"});
}

TEST(Run, AMistakeInTheEvaluationIsSaidBeforeTheFirstStep) {
  const auto outcomes =
      run_of(mnist().config("trial"),
             {.model = [] { return torch::nn::Linear(784, 10).ptr(); },
              .task = make_task<torch::nn::LinearImpl>([](torch::nn::LinearImpl& module, const samples::Batch& batch) {
                TORCH_CHECK(module.is_training(), "the evaluation has a mistake");
                return torch::cross_entropy_loss(module.forward(batch["pictures"].flatten(1)), batch["labels"]);
              })});
  EXPECT_FALSE(outcomes[0].ok());
  expect_words(outcomes[0].output, {"the evaluation has a mistake"});
  EXPECT_EQ(outcomes[0].output.find("step: 1,"), std::string::npos);
}

TEST(Run, AFirstStepThatDoesNotFitIntoMemoryIsSaid) {
  plan::Memory needed;
  needed.parameters = plan::Bytes{5e8};
  needed.gradients = plan::Bytes{5e8};
  needed.optimizer_state = plan::Bytes{1e9};
  needed.activations = plan::Bytes{6e9};
  EXPECT_EQ(why_too_large(needed, 1, 16, 8'000'000'000), "");
  EXPECT_EQ(why_too_large(needed, 2, 8, 15'000'000'000), "");  // the parameters are there already
  expect_words(why_too_large(needed, 2, 16, 8'000'000'000),
               {"the first step does not fit into memory: 16 samples a rank need about 8 GB", "activations 6 GB",
                "on each of 2 ranks here", "beside the parameters 8 GB are available", "data.batch_size smaller"});
}

TEST(Run, ProgressLinesWhereThereIsNoTerminal) {
  const auto outcomes =
      mnist().outcomes(1, mnist().config("progress", {"callbacks.progress=on", "callbacks.loss_every=0"}));
  expect_words(outcomes[0].output, {"epoch 2/2 [========================] 100% step 12/12 loss "});
}

TEST(Run, ALossThatIsNotFiniteOnOneRankEndsAllNamingEpochStepAndRank) {
  // A scale that only black survives; rank 0 has a copy of the data in which all pictures are black.
  const auto black = mnist().folder() / "black";
  std::filesystem::copy(mnist().folder() / "data", black);
  const auto pictures = black / "train-images-idx3-ubyte";
  constexpr std::size_t kHeader = 16;  // bytes
  auto bytes = read_file(pictures);
  ASSERT_GT(bytes.size(), kHeader);
  std::fill(bytes.begin() + kHeader, bytes.end(), '\0');
  std::ofstream(pictures, std::ios::binary) << bytes;
  const std::string bright = "data.train_transforms=[rescale: {scale: 1e30}, rescale: {scale: 1e8}, hwc2chw]";
  const auto bad = mnist().config("nan", {bright});
  const auto good = mnist().config("nan", {bright, "data.root=" + black.string()});
  const auto outcomes = test::rank_outcomes(2, SmallRun::small_rank_options(), [&](test::Rank& rank) {
    run_training(rank.rank() == 1 ? bad : good, rank.world());
  });
  for (const auto& outcome : outcomes) {
    EXPECT_FALSE(outcome.ok());
    EXPECT_FALSE(outcome.hit_deadline);
    expect_words(outcome.output, {"epoch: 1 step: 1, loss is ", "on rank 1"});
  }
  EXPECT_FALSE(std::filesystem::exists(mnist().work_dir("nan") / "result.json"));
  expect_words(read_file(mnist().work_dir("nan") / "log/rank.1"), {"[error]", "loss is "});
  expect_words(read_file(mnist().work_dir("nan") / "log/rank.0"), {"[error]", "on rank 1"});
}

TEST(Run, EvaluationThatIsNotDescribedSeesPicturesAsTrainingDoes) {
  mnist().run(1, mnist().config("eval_given"));
  mnist().run(1, mnist().config("eval_left_out", {"data.eval_transforms=null"}));
  EXPECT_EQ(mnist().result("eval_left_out")["eval_loss"], mnist().result("eval_given")["eval_loss"]);
  auto config = mnist().config("eval_by_chance", {"data.eval_transforms=null"});
  auto& steps = config.data.train_transforms.items;
  ASSERT_EQ(steps.size(), 2u);
  ConfigNode flip;
  flip.kind = ConfigNode::Kind::scalar;
  flip.scalar = "random_horizontal_flip";
  steps.insert(steps.begin(), flip);
  const auto text = [&](data::Split split) { return transforms_of(config, split, data_part(config).shape).text; };
  EXPECT_NE(text(data::Split::train).find("random_horizontal_flip"), std::string::npos);
  EXPECT_EQ(text(data::Split::test).find("random_horizontal_flip"), std::string::npos);
}

TEST(Run, BadInputIsAnsweredBeforeTraining) {
  const auto message = [&](std::vector<std::string> overrides) {
    const auto outcome = mnist().outcomes(1, mnist().config("bad", overrides)).front();
    EXPECT_FALSE(outcome.ok());
    return outcome.output;
  };
  expect_words(message({"data.root=" + mnist().folder().string() + "/nowhere"}), {"nowhere"});
  expect_words(message({"model.num_classes=7"}), {"model.num_classes", "7", "10 classes"});
  expect_words(message({"data.batch_size=1000"}), {"data.batch_size", "1000", "100 samples", "data.remainder=exact"});
  expect_words(message({"data.eval_transforms=[resize: {size: 14}, rescale: {scale: 1}, hwc2chw]"}),
               {"data.train_transforms", "1x28x28", "1x14x14"});
  expect_words(message({"model.weights=nowhere.safetensors"}), {"nowhere.safetensors"});
  expect_words(message({"checkpoint.resume=nowhere.safetensors"}), {"nowhere.safetensors"});
  expect_words(message({"system.work_dir=" + mnist().folder().string() + "/data/SYNTHETIC.txt"}),
               {"system.work_dir", "SYNTHETIC.txt"});
  expect_words(message({"checkpoint.folder=/proc/none"}), {"checkpoint.folder", "/proc/none"});
}

TEST(Run, StandAloneIsForOneProcess) {
  const auto outcomes = mnist().outcomes(2, mnist().config("alone", {"parallel.mode=stand_alone"}));
  for (const auto& outcome : outcomes) expect_words(outcome.output, {"parallel.mode", "stand_alone", "of 2"});
  mnist().run(1, mnist().config("alone", {"parallel.mode=stand_alone", "train.steps=2"}));
}

const std::vector<std::string> kConvolutional = {"model.name=resnet20", "train.steps=4", "data.batch_size=4"};

std::string hash_with_backend(const std::string& backend, const std::string& work_dir) {
  auto overrides = kConvolutional;
  overrides.push_back("parallel.backend=" + backend);
  cifar10().run(2, cifar10().config(work_dir, overrides));
  EXPECT_EQ(cifar10().result(work_dir)["backend"], backend);
  return cifar10().hash(work_dir);
}

// Twice with each backend; and because a sum of two numbers has one rounding only, two ranks must get the very same
// with every backend.
TEST(Backends, TheSameSeedGivesTheSameBits) {
  const auto hash = hash_with_backend("tcp", "tcp_a");
  EXPECT_EQ(hash_with_backend("tcp", "tcp_b"), hash);
  EXPECT_EQ(hash_with_backend("shm", "shm_a"), hash);
  EXPECT_EQ(hash_with_backend("shm", "shm_b"), hash);
}

#ifdef LOCKSTEP_TEST_MPIRUN
std::string hash_with_mpi(const std::string& work_dir) {
  auto overrides = kConvolutional;
  overrides.push_back("parallel.backend=mpi");
  const auto file = cifar10().folder() / (work_dir + ".yaml");
  std::ofstream(file) << print_config(cifar10().config(work_dir, overrides));
  ChildOptions options;
  options.arguments = {LOCKSTEP_TEST_MPIRUN, "-n", "2", LOCKSTEP_TEST_TRAIN_PROGRAM, file.string()};
  options.environment = test::environment_for_mpirun();
  const auto ran = run_and_capture(options, std::chrono::seconds(180));
  EXPECT_TRUE(ran.status.ok()) << ran.out << ran.err;
  EXPECT_EQ(cifar10().result(work_dir)["backend"], "mpi");
  return cifar10().hash(work_dir);
}

TEST(Backends, MpiGivesTheSameBitsToo) {
  const auto hash = hash_with_backend("tcp", "tcp_c");
  EXPECT_EQ(hash_with_mpi("mpi_a"), hash);
  EXPECT_EQ(hash_with_mpi("mpi_b"), hash);
}
#endif

TEST(RealData, ThePerceptronLearnsMnist) {
  const auto* folder = std::getenv("LOCKSTEP_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "LOCKSTEP_TEST_DATA does not name a folder with mnist/";
  const std::vector<std::string> overrides = {"data.root=" + std::string(folder) + "/mnist", "train.epochs=1",
                                              "system.work_dir=" + mnist().work_dir("real").string()};
  mnist().run(2, load_run_config(std::filesystem::path(LOCKSTEP_CONFIGS) / "mlp_mnist.yaml", overrides));
  EXPECT_EQ(mnist().result("real")["eval_samples"], 10000);
  EXPECT_GT(mnist().result("real")["eval_accuracy"], 0.96);
}

}  // namespace
}  // namespace lockstep::train
