// The configuration of a run: what is read, what is refused, and that the shipped files are right.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/optimizer/schedule.h>
#include <lockstep/train/part_settings.h>
#include <lockstep/train/parts.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <type_traits>

#include "base/expect_error.h"

namespace lockstep::train {
namespace {

using test::expect_error;

constexpr std::string_view kSmallest =
    "model: {name: mlp}\n"
    "data: {name: mnist, root: data}\n"
    "optimizer: {lr: 0.1}\n"
    "train: {epochs: 2}\n";

// The values alone would lose the parts that they name.
static_assert(!std::is_constructible_v<RunConfig, const ResolvedRun&>);
static_assert(!std::is_constructible_v<RunConfig, ResolvedRun>);
static_assert(!std::is_assignable_v<RunConfig&, ResolvedRun>);
static_assert(!std::is_convertible_v<RunConfig, ResolvedRun>);

ResolvedRun read(std::vector<std::string> overrides = {}) {
  return read_run_config(parse_config(kSmallest, "run.yaml", overrides));
}

void expect_refused(std::vector<std::string> overrides, std::initializer_list<std::string_view> words) {
  expect_error(ErrorKind::config, words, [&] { read(overrides); });
}

TEST(RunConfig, NeedsOnlyWhatHasNoDefault) {
  const auto config = read();
  EXPECT_EQ(config.system.work_dir, "out");
  EXPECT_EQ(config.parallel.backend, "auto");
  EXPECT_EQ(config.optimizer.name, "momentum");
  EXPECT_EQ(config.optimizer.options.as<SgdSettings>().momentum, 0.9);
  EXPECT_EQ(global_batch_size_of(config.data, 2), 64);
  EXPECT_EQ(shuffle_seed_of(config), 1u);
  EXPECT_EQ(checkpoint_folder_of(config), "out/checkpoints");
}

TEST(RunConfig, ADeviceMayHaveANumber) {
  EXPECT_EQ(read({"system.device=cuda:3"}).system.device, "cuda:3");
  for (const auto* device : {"cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "cuda:N", "cpu:0"}) {
    expect_refused({fmt::format("system.device='{}'", device)}, {"is not one of auto, cpu, cuda, cuda:N"});
  }
}

TEST(RunConfig, MissingKeysAreAllNamed) {
  expect_error(ErrorKind::config, {"model.name", "data.name", "data.root", "optimizer.lr"},
               [] { read_run_config(parse_config("train: {epochs: 1}\n", "run.yaml")); });
}

TEST(RunConfig, DefaultsThatDependOnOtherKeys) {
  const auto sgd = [](std::vector<std::string> overrides) {
    return read(std::move(overrides)).optimizer.options.as<SgdSettings>();
  };
  EXPECT_EQ(sgd({"optimizer.name=sgd"}).momentum, 0.0);
  EXPECT_EQ(sgd({"optimizer.name=sgd", "optimizer.momentum=0.5"}).momentum, 0.5);
  EXPECT_EQ(sgd({"optimizer.momentum=null"}).momentum, 0.9);
  EXPECT_EQ(read({"optimizer.name=lars"}).optimizer.options.as<LarsSettings>().momentum, 0.9);
  EXPECT_EQ(read({"optimizer.name=rmsprop"}).optimizer.options.as<RmspropSettings>().momentum, 0.0);
  EXPECT_EQ(global_batch_size_of(read({"data.batch_size=5"}).data, 3), 15);
  EXPECT_EQ(global_batch_size_of(read({"data.global_batch_size=7"}).data, 3), 7);
  EXPECT_EQ(shuffle_seed_of(read({"data.shuffle_seed=9"})), 9u);
  EXPECT_EQ(checkpoint_folder_of(read({"checkpoint.folder=elsewhere"})), "elsewhere");
}

TEST(RunConfig, ListsNodesWithAddressesOrPlainly) {
  const auto none = node_list_of(read().parallel);
  EXPECT_TRUE(none.addresses.empty());
  EXPECT_EQ(none.devices_per_node, 1);
  const auto list =
      node_list_of(read({"parallel.nodes=[{addr: 192.168.1.12}, node-b]", "parallel.ctrl_port=9988"}).parallel);
  EXPECT_EQ(list.addresses, (std::vector<std::string>{"192.168.1.12", "node-b"}));
  EXPECT_EQ(list.ctrl_port, 9988);
  const auto here = node_list_of(read({"parallel.devices_per_node=2"}).parallel);
  EXPECT_EQ(here.addresses, (std::vector<std::string>{"127.0.0.1"}));
  EXPECT_EQ(here.devices_per_node, 2);
  EXPECT_EQ(node_list_of(
                read_run_config(parse_config(print_config(read({"parallel.nodes=[{addr: a}]"})), "printed")).parallel)
                .addresses,
            (std::vector<std::string>{"a"}));
  expect_refused({"parallel.nodes=10.0.0.1"}, {"parallel.nodes: expected a list", "'10.0.0.1'"});
  expect_refused({"parallel.nodes=[{addr: a}, {address: b}]"}, {"parallel.nodes[1]", "{addr: ADDRESS}"});
  expect_refused({"parallel.nodes=[{addr: a, port: 5}]"}, {"parallel.nodes[0]"});
  expect_refused({"parallel.ctrl_port=70000"}, {"parallel.ctrl_port", "65535"});
  expect_refused({"parallel.devices_per_node=0"}, {"parallel.devices_per_node"});
}

TEST(RunConfig, UnknownKeyNamesTheNearestOne) {
  expect_refused({"optimizer.momentun=0.9"}, {"optimizer.momentun", "momentum"});
}

// The keys of a section depend on the part that it names, so the wrong name is the only mistake.
TEST(RunConfig, AWrongNameIsReportedWithoutTheKeysOfItsPart) {
  for (const auto& [name, key] : {std::pair{"optimizer.name=my_sdg", "optimizer.trust=1"},
                                  {"model.name=tinny", "model.width=3"},
                                  {"scheduler.name=cosin", "scheduler.cycle=2"}}) {
    try {
      read({key, name});
      ADD_FAILURE() << name << " was read";
    } catch (const Error& error) {
      const std::string wrong = name;
      EXPECT_TRUE(error.message().starts_with(wrong.substr(0, wrong.find('=')))) << error.message();
      EXPECT_EQ(error.message().find("there is no key"), std::string::npos) << error.message();
    }
  }
}

TEST(RunConfig, RangesAndChoices) {
  expect_refused({"train.epochs=0"}, {"train.epochs", "1"});
  expect_refused({"optimizer.lr=0"}, {"optimizer.lr", "above 0"});
  expect_refused({"optimizer.lr=[1, 2]"}, {"optimizer.lr", "list"});
  expect_refused({"model.name=resnet51"}, {"model.name", "resnet50"});
  expect_refused({"data.batch_size=many"}, {"data.batch_size", "many"});
  expect_refused({"loss.label_smoothing=1"}, {"loss.label_smoothing"});
  expect_refused({"data.remainder=keep"}, {"data.remainder", "exact"});
}

TEST(RunConfig, KeysThatContradictEachOther) {
  expect_refused({"train.epochs=null"}, {"train.epochs", "train.steps"});
  expect_refused({"optimizer.name=adam", "optimizer.momentum=0.9"}, {"optimizer.momentum", "adam"});
  expect_refused({"optimizer.name=adamw", "optimizer.nesterov=true"}, {"optimizer.nesterov", "adamw"});
  expect_refused({"optimizer.momentum=0"}, {"optimizer.momentum", "sgd"});
  expect_refused({"optimizer.name=sgd", "optimizer.nesterov=true"}, {"optimizer.nesterov", "momentum"});
  expect_refused({"optimizer.betas=[0.9]"}, {"optimizer.betas", "2"});
  expect_refused({"scheduler.warmup_epochs=1", "scheduler.warmup_steps=5"}, {"warmup_epochs", "warmup_steps"});
  expect_refused({"scheduler.name=multi_step"}, {"scheduler.milestones"});
  expect_refused({"scheduler.milestones=[3, 3]"}, {"scheduler.milestones", "[3, 3]"});
  expect_refused({"scheduler.min_lr=0.5"}, {"scheduler.min_lr", "0.5", "0.1"});
  expect_refused({"optimizer.name=adagrad", "optimizer.momentum=0.9"}, {"optimizer.momentum", "adagrad"});
  expect_refused({"optimizer.name=lars", "optimizer.nesterov=true"}, {"optimizer.nesterov", "lars"});
  for (const auto* name : {"lars", "lamb", "muon"}) {
    expect_refused({std::string("optimizer.name=") + name, "parallel.shard_optimizer=true"},
                   {name, "parallel.shard_optimizer to false"});
  }
  expect_refused({"scheduler.name=one_cycle", "scheduler.warmup_steps=5"}, {"one_cycle", "warmup_steps"});
  expect_refused({"scheduler.name=one_cycle", "scheduler.min_lr=0.01"}, {"one_cycle", "min_lr", "final_div_factor"});
  expect_refused({"optimizer.no_decay=[bias]"}, {"optimizer.no_decay", "biases"});
  expect_refused({"system.work_dir="}, {"system.work_dir"});
  expect_refused({"model.weights=''"}, {"model.weights"});
  expect_refused({"model.weights_strict=false"}, {"weights_strict", "model.weights, which is not given"});
  expect_refused({"model.weights_rename={a.: b.}"}, {"weights_rename", "model.weights, which is not given"});
  expect_refused({"data.batch_size=8", "data.global_batch_size=16"}, {"data.batch_size is 8", "16 for all", "null"});
  expect_refused({"data.global_batch_size=16", "parallel.gradients_mean=false"}, {"gradients_mean", "batch_size"});
}

TEST(RunConfig, MetricsAreThoseOfTheTargets) {
  const std::string of_table =
      "model: {name: mlp, num_classes: 1}\ntask: {name: regression}\n"
      "data: {name: csv, train: a.csv, numbers: [x], targets: [y]}\noptimizer: {lr: 0.1}\ntrain: {epochs: 2}\n";
  const auto refused = [&](const std::string& line, std::initializer_list<std::string_view> words) {
    expect_error(ErrorKind::config, words, [&] { read_run_config(parse_config(of_table + line, "run.yaml")); });
  };
  EXPECT_NO_THROW(read({"metrics=[top_k: {k: 3}, f1, precision: {average: each}, confusion]"}));
  EXPECT_NO_THROW(read_run_config(parse_config(of_table + "metrics: [mse, r2]\n", "run.yaml")));
  expect_refused({"metrics=[mae]"}, {"'mae' compares numbers", "task classification are classes", "accuracy, top_k"});
  refused("metrics: [mse, f1]\n", {"'f1' compares classes", "task regression are numbers", "mae, mse", "run.yaml:6"});
  expect_refused({"metrics=[acuracy]"}, {"'acuracy'", "did you mean 'accuracy'"});
  expect_refused({"metrics=[accuracy, accuracy]"}, {"items 1 and 2 both measure 'accuracy'"});
  expect_refused({"metrics=[top_k, top_k: {k: 5}]"}, {"both measure 'top_5'"});
  expect_refused({"metrics=[f1, f1: {average: micro}]"}, {"both measure 'f1'"});
}

TEST(RunConfig, CallbacksCompareByAMetricThatThereIs) {
  for (const auto* metric : {"loss", "accuracy", "top_3", "f1_7"}) {
    EXPECT_NO_THROW(read(
        {"metrics=[accuracy, top_k: {k: 3}, f1: {average: each}]",
         fmt::format("callbacks.use=[early_stopping: {{metric: {0}}}, best_checkpoints: {{metric: {0}}}]", metric)}));
  }
  for (const auto* name : {"early_stopping", "best_checkpoints"}) {
    expect_refused({"metrics=[accuracy, top_k: {k: 3}]", fmt::format("callbacks.use=[{}: {{metric: top_5}}]", name)},
                   {"no metric 'top_5'; it has loss, accuracy, top_3; did you mean 'top_3'?"});
    expect_refused({"metrics=[f1: {average: each}]", fmt::format("callbacks.use=[{}: {{metric: f1}}]", name)},
                   {"no metric 'f1'; it has loss, accuracy, f1_*"});
  }
  expect_error(ErrorKind::config, {"no metric 'acuracy'", "run.yaml:6"}, [&] {
    read_run_config(
        parse_config(std::string(kSmallest) + "callbacks:\n  use: [early_stopping: {metric: acuracy}]\n", "run.yaml"));
  });
}

TEST(RunConfig, NoTwoCallbacksWriteToTheSamePath) {
  EXPECT_NO_THROW(
      read({"callbacks.use=[profiler, profiler: {file: b.json}, best_checkpoints: {metric: loss}, "
            "best_checkpoints: {metric: accuracy, folder: other}, early_stopping: {metric: loss}, "
            "early_stopping: {metric: accuracy}]"}));
  const std::string whole = std::filesystem::absolute("out/x/../best/").string();
  expect_refused({"callbacks.use=[best_checkpoints, best_checkpoints: {metric: accuracy, folder: " + whole + "}]"},
                 {"best_checkpoints would write to", "out/best", "another best_checkpoints", "another `folder`"});
  expect_refused({"callbacks.use=[best_checkpoints: {folder: ./checkpoints}]"},
                 {"out/checkpoints", "the run itself writes", "another `folder`"});
  expect_refused({"checkpoint.folder=~/kept", "callbacks.use=[best_checkpoints: {folder: ~/kept}]"},
                 {"the run itself writes", "another `folder`"});
  expect_refused({"callbacks.use=[profiler: {file: config.yaml}]"},
                 {"config.yaml", "the run itself", "another `file`"});
  expect_refused({"callbacks.use=[profiler: {file: t}, best_checkpoints: {folder: t}]"}, {"where profiler writes"});
  expect_refused({"callbacks.use=[ema: {decay: 0.9}, ema: {decay: 0.99}]"}, {"ema.safetensors", "remove one"});
  expect_refused({"callbacks.tensorboard=true", "callbacks.use=[tensorboard]"}, {"the run itself", "remove one"});
  for (const auto* twice :
       {"[ema, ema]", "[early_stopping, early_stopping: {}]", "[lr_log: {every: 2}, lr_log: {every: 2}]"}) {
    expect_refused({std::string("callbacks.use=") + twice}, {"callbacks.use[1]", "is given twice", "remove one"});
  }
}

// One file serves several optimizers: what the named one does not have is checked, shown by --dry-run, and has no
// effect.
TEST(RunConfig, KeysOfOtherOptimizersAndSchedulesHaveNoEffect) {
  const auto config =
      read({"optimizer.name=adam", "optimizer.momentum=null", "optimizer.nesterov=false",
            "optimizer.trust_coefficient=0.5", "optimizer.eps=1e-6", "scheduler.gamma=0.5", "scheduler.step_size=30"});
  EXPECT_EQ(config.optimizer.options.as<AdamSettings>().eps, 1e-6);
  // 30 is the default of scheduler.step_size.
  EXPECT_EQ(config.without_effect,
            (std::vector<std::string>{"# no effect with optimizer.name adam: trust_coefficient: 0.5\n",
                                      "# no effect with scheduler.name constant: gamma: 0.5\n"}));
  EXPECT_NE(config.origins.find(config.without_effect.back()), std::string::npos);
  const auto text = print_config(config);
  EXPECT_NE(text.find("eps: 1e-06"), std::string::npos);
  for (const auto* unused : {"trust_coefficient", "gamma", "nesterov", "momentum"}) {
    EXPECT_EQ(text.find(unused), std::string::npos) << unused;
  }
  expect_refused({"optimizer.trust_coefficient=-1"}, {"optimizer.trust_coefficient", "above 0"});
  expect_refused({"optimizer.momentum=x", "optimizer.name=adam"}, {"optimizer.momentum", "a number"});
  expect_refused({"scheduler.gama=0.5"}, {"no key 'scheduler.gama'; did you mean 'gamma'?"});
  expect_refused({"optimizer.name=adam", "optimizer.momentum=0.9"},
                 {"optimizer.momentum is 0.9 but optimizer.name adam has no momentum", "sgd, momentum, rmsprop, lars",
                  "remove it"});
}

struct TwoRates {
  double fast = 0.5;
  double slow = 0.25;
};
void describe(ConfigFields& fields, TwoRates& rates) {
  fields.field("fast", rates.fast, between(0, 1), "the larger one");
  fields.field("slow", rates.slow, between(0, 1), "the smaller one");
}

// Those of a user are declared, checked and read as ours.
TEST(RunConfig, AnOptimizerOfTheUserChecksItsKeys) {
  Parts parts = shipped_parts();
  parts.optimizers.push_back({.name = "two_rates",
                              .options = PartOptions::of(TwoRates{}),
                              .make = find_part(parts.optimizers, "sgd")->make,
                              .check = [](const OptimizerConfig& config) {
                                const auto& rates = config.options.as<TwoRates>();
                                if (rates.slow <= rates.fast) return;
                                fail(ErrorKind::config, "config", "optimizer.slow {} is above optimizer.fast {}",
                                     rates.slow, rates.fast);
                              }});
  const auto shared = std::make_shared<const Parts>(std::move(parts));
  const auto read_with = [&](std::vector<std::string> overrides) {
    return read_run_config(parse_config(kSmallest, "run.yaml", overrides), ResolvedRun({}, shared));
  };
  const auto config = read_with({"optimizer.name=two_rates", "optimizer.slow=0.5", "optimizer.eps=1e-3"});
  EXPECT_EQ(config.optimizer.options.as<TwoRates>().slow, 0.5);
  EXPECT_EQ(config.without_effect, std::vector<std::string>{"# no effect with optimizer.name two_rates: eps: 0.001\n"});
  expect_error(ErrorKind::config, {"optimizer.slow 0.75 is above optimizer.fast 0.5"}, [&] {
    read_with({"optimizer.name=two_rates", "optimizer.slow=0.75"});
  });
  expect_error(ErrorKind::config, {"optimizer.slow", "from 0 to 1"}, [&] {
    read_with({"optimizer.name=two_rates", "optimizer.slow=2"});
  });
  expect_error(ErrorKind::config, {"no key 'optimizer.slow'"}, [&] { read_with({"optimizer.slow=0.5"}); });
  expect_error(ErrorKind::config, {"optimizer.momentum is 0.9 but optimizer.name two_rates has no momentum"}, [&] {
    read_with({"optimizer.name=two_rates", "optimizer.momentum=0.9"});
  });
}

TEST(RunConfig, PrintsWhatItReadsBack) {
  const auto config = read({"data.train_transforms=[random_crop: {size: 32, padding: 4}, hwc2chw]",
                            "scheduler.milestones=[3, 7]", "train.steps=12", "model.weights=w.safetensors",
                            "model.weights_rename={a.: '', '*.b': '*.c'}", "model.weights_strict=false"});
  const auto text = print_config(config);
  EXPECT_EQ(print_config(read_run_config(parse_config(text, "printed.yaml"))), text);
}

TEST(RunConfig, EveryKeyIsDocumentedOnce) {
  std::set<std::string> paths;
  for (const auto& key : list_keys<ResolvedRun>()) {
    EXPECT_TRUE(paths.insert(key.path).second) << key.path;
    EXPECT_FALSE(key.doc.empty()) << key.path;
  }
  for (const auto* path : {"system.seed", "parallel.backend", "model.name", "loss.name", "data.root", "optimizer.lr",
                           "scheduler.name", "train.epochs", "checkpoint.resume", "callbacks.progress"}) {
    EXPECT_TRUE(paths.contains(path)) << path;
  }
}

TEST(RunConfig, IsReadFromAFileWithOverrides) {
  const auto file = std::filesystem::path(LOCKSTEP_CONFIGS) / "mlp_mnist.yaml";
  const std::vector<std::string> overrides{"train.epochs=3", "train.epochs=4", "data.batch_size=7"};
  const auto config = load_run_config(file, overrides);
  EXPECT_EQ(config.train.epochs, 4);
  EXPECT_EQ(config.data.batch_size, 7);
  const std::vector<std::string> contradiction{"optimizer.name=momentum", "optimizer.momentum=0"};
  expect_error(ErrorKind::config, {"optimizer.momentum"}, [&] { load_run_config(file, contradiction); });
  expect_error(ErrorKind::config, {"/no/such.yaml"}, [] { load_run_config("/no/such.yaml"); });
}

// They are found between values, which know no file.
TEST(RunConfig, ContradictionsNameTheLineOfAKey) {
  struct Case {
    std::string line;  ///< line 6 of the file
    std::string_view words;
  };
  const std::vector<Case> cases = {
      {"scheduler: {name: multi_step, milestones: [80, 40]}", "scheduler.milestones must ascend"},
      {"data: {batch_size: 8, global_batch_size: 16}", "data.batch_size is 8"},
      {"optimizer: {betas: [0.9]}", "optimizer.betas must hold 2 numbers"},
      {"parallel: {mesh: {data: 2}}", "parallel.mesh, shard, strategy"},
      {"parallel: {cluster: c.yaml}", "parallel.plan, cluster"},
      {"model: {weights: ''}", "model.weights is empty"},
      {"train: {sink_size: 4}", "train.sink_size is 4"},
      {"train: {epochs: ~}", "neither train.epochs nor"},
      {"callbacks: {use: [early_stoping]}", "there is no callback 'early_stoping'; did you mean 'early_stopping'?"},
  };
  const TemporaryFolder folder;
  const auto base = folder.path() / "base.yaml", file = folder.path() / "run.yaml";
  std::ofstream(base) << "model: {name: mlp}\ndata: {name: mnist, root: x}\noptimizer: {lr: 0.1}\ntrain: {epochs: 1}\n";
  for (const auto& each : cases) {
    std::ofstream(file) << "base: base.yaml\n\n\n\n\n" << each.line << "\n";
    const auto error = expect_error(ErrorKind::config, {each.words}, [&] { load_run_config(file); });
    if (error) test::expect_words(error->what(), {file.string() + ":6)"});
  }
  const std::vector<std::string> override{"scheduler.name=multi_step"};
  std::ofstream(file) << "base: base.yaml\n";
  expect_error(ErrorKind::config, {"(override 'scheduler.name=multi_step')"}, [&] { load_run_config(file, override); });
  const std::vector<std::string> unknown{"callbacks.use=[loger]"};
  expect_error(ErrorKind::config, {"'loger'", "known are ", "early_stopping, ", "profiler"},
               [&] { load_run_config(file, unknown); });
}

class ShippedConfig : public testing::TestWithParam<const char*> {};

TEST_P(ShippedConfig, IsValid) {
  const auto file = std::filesystem::path(LOCKSTEP_CONFIGS) / (std::string(GetParam()) + ".yaml");
  const auto config = load_run_config(file);
  EXPECT_EQ(config.system.work_dir, std::string("out/") + GetParam());
  EXPECT_EQ(config.model.name, std::string(GetParam()).substr(0, config.model.name.size()));
}

INSTANTIATE_TEST_SUITE_P(All, ShippedConfig,
                         testing::Values("mlp_mnist", "resnet20_cifar10", "resnet18_cifar10", "resnet50_cifar10",
                                         "resnet50_cifar10_32"),
                         [](const auto& each) { return std::string(each.param); });

TEST(RunLength, LengthFromEpochs) {
  const auto plan = run_length_of(read({"train.epochs=3", "train.accumulate=4"}), 10);
  EXPECT_EQ(plan.batches_per_epoch, 10);
  EXPECT_EQ(plan.steps_per_epoch, 3);
  EXPECT_EQ(plan.total_steps, 9);
  EXPECT_EQ(plan.epochs, 3);
}

TEST(RunLength, NewSchedulesTakeTheirKeys) {
  const auto polynomial = run_length_of(
      read({"scheduler.name=polynomial", "scheduler.power=2", "scheduler.min_lr=0.01", "train.epochs=3"}), 10);
  EXPECT_DOUBLE_EQ(learning_rate(polynomial.schedule, 15), 0.01 + 0.09 * 0.25);
  const auto exponential = run_length_of(read({"scheduler.name=exponential", "scheduler.gamma=0.5"}), 10);
  EXPECT_DOUBLE_EQ(learning_rate(exponential.schedule, 9), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(exponential.schedule, 10), 0.05);
  const auto by_steps = run_length_of(
      read({"scheduler.name=exponential", "scheduler.gamma=0.5", "scheduler.unit=steps", "scheduler.step_size=7"}), 10);
  EXPECT_DOUBLE_EQ(learning_rate(by_steps.schedule, 2), 0.025);
  const auto cycle =
      run_length_of(read({"scheduler.name=one_cycle", "scheduler.pct_start=0.5", "scheduler.anneal=linear",
                          "scheduler.div_factor=10", "scheduler.final_div_factor=4"}),
                    5);
  EXPECT_DOUBLE_EQ(learning_rate(cycle.schedule, 0), 0.01);
  EXPECT_DOUBLE_EQ(learning_rate(cycle.schedule, 4), 0.1);
  EXPECT_NEAR(learning_rate(cycle.schedule, 9), 0.0025, 1e-15);
}

TEST(RunLength, LengthFromStepsWhicheverComesFirst) {
  EXPECT_EQ(run_length_of(read({"train.steps=11"}), 10).total_steps, 11);
  EXPECT_EQ(run_length_of(read({"train.steps=11"}), 10).epochs, 2);
  EXPECT_EQ(run_length_of(read({"train.steps=99"}), 10).total_steps, 20);
  EXPECT_EQ(run_length_of(read({"train.steps=99", "train.epochs=null"}), 10).total_steps, 99);
  EXPECT_EQ(run_length_of(read({"train.steps=99", "train.epochs=null"}), 10).epochs, 10);
}

TEST(RunLength, ScheduleInSteps) {
  const auto epochs = run_length_of(read({"train.epochs=100", "scheduler.name=multi_step",
                                          "scheduler.milestones=[30, 60]", "scheduler.warmup_epochs=2.5"}),
                                    10);
  for (const auto& [step, rate] : {std::pair(25, 0.1), {299, 0.1}, {300, 0.01}, {599, 0.01}, {600, 0.001}}) {
    EXPECT_DOUBLE_EQ(learning_rate(epochs.schedule, step), rate) << step;
  }
  EXPECT_EQ(epochs.schedule.warmup_steps, 25);
  EXPECT_EQ(epochs.schedule.total_steps, 1000);
  const auto steps = run_length_of(read({"train.epochs=100", "scheduler.name=step", "scheduler.step_size=7",
                                         "scheduler.unit=steps", "scheduler.warmup_steps=3"}),
                                   10);
  for (const auto& [step, rate] : {std::pair(6, 0.1), {7, 0.01}, {13, 0.01}, {14, 0.001}}) {
    EXPECT_DOUBLE_EQ(learning_rate(steps.schedule, step), rate) << step;
  }
  EXPECT_EQ(steps.schedule.warmup_steps, 3);
}

TEST(RunLength, RunsMayEndInTheirWarmUp) {
  const auto plan = run_length_of(read({"scheduler.warmup_epochs=2", "scheduler.name=cosine"}), 10);
  EXPECT_TRUE(ends_in_warm_up(plan));
  EXPECT_DOUBLE_EQ(learning_rate(plan.schedule, 0), plan.schedule.base_lr / 20);
  EXPECT_DOUBLE_EQ(learning_rate(plan.schedule, 19), plan.schedule.base_lr);
  EXPECT_FALSE(ends_in_warm_up(run_length_of(read({"scheduler.warmup_epochs=0.5"}), 10)));
  EXPECT_FALSE(ends_in_warm_up(run_length_of(read({}), 10)));
}

}  // namespace
}  // namespace lockstep::train
