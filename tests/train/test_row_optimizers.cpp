// The optimizers of rows: beside libtorch's, with sparse gradients, mixed in optimizer.groups, saved and loaded.
#include <lockstep/base/config.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/optimizer/row_optimizer.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>

#include "base/expect_error.h"

namespace lockstep::train {
namespace {

using test::expect_error;

ResolvedRun run_with_section(const std::string& section) {
  const auto text = "model: {name: mlp}\ndata: {name: mnist, root: data}\ntrain: {epochs: 1}\noptimizer: " + section;
  return read_run_config(parse_config(text, "run.yaml"));
}

NamedParameters tables() {
  torch::manual_seed(4);
  return {{"wide.weight", torch::randn({20, 1}).requires_grad_()},
          {"deep.weight", torch::randn({20, 7}).requires_grad_()},
          {"fc.bias", torch::randn({5}).requires_grad_()}};
}

/// Gradients of one step: of the tables sparse, with an id twice, or the same as dense ones.
void set_gradients(const NamedParameters& parameters, int step, bool sparse) {
  torch::manual_seed(100 + step);
  for (const auto& [name, parameter] : parameters) {
    if (parameter.dim() == 1) {
      parameter.mutable_grad() = torch::randn_like(parameter);
      continue;
    }
    const auto ids = torch::tensor({{3, 5 + step, 3, 11}});
    const auto values = torch::randn({4, parameter.size(1)});
    const auto gradient = torch::sparse_coo_tensor(ids, values, parameter.sizes());
    parameter.mutable_grad() = sparse ? gradient : gradient.to_dense();
  }
}

NamedParameters after_steps(const ResolvedRun& config, int steps, bool sparse) {
  const auto parameters = tables();
  const auto optimizer = make_optimizer(config, parameters);
  for (int step = 0; step < steps; ++step) {
    set_gradients(parameters, step, sparse);
    set_learning_rate(*optimizer, 0.1 / (1 + step));
    optimizer->step();
  }
  return parameters;
}

TEST(RowOptimizers, WithDenseGradientsAreLibtorchs) {
  const std::vector<std::pair<std::string, std::string>> pairs{
      {"{name: lazy_sgd, lr: 0.1}", "{name: sgd, lr: 0.1}"},
      {"{name: lazy_sgd, lr: 0.1, weight_decay: 0.1}", "{name: sgd, lr: 0.1, weight_decay: 0.1}"},
      {"{name: lazy_momentum, lr: 0.1, momentum: 0.8}", "{name: momentum, lr: 0.1, momentum: 0.8}"},
      {"{name: lazy_adagrad, lr: 0.1, initial_accumulator: 0.1}", "{name: adagrad, lr: 0.1, initial_accumulator: 0.1}"},
      {"{name: lazy_adam, lr: 0.1, betas: [0.8, 0.99]}", "{name: adam, lr: 0.1, betas: [0.8, 0.99]}"}};
  for (const auto& [own, theirs] : pairs) {
    const auto a = after_steps(run_with_section(own), 6, false), b = after_steps(run_with_section(theirs), 6, false);
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_TRUE(torch::allclose(a[i].second, b[i].second, 1e-5, 1e-6)) << own << " " << a[i].first;
    }
  }
}

TEST(RowOptimizers, ReadAndWriteTheRowsOfTheStepOnly) {
  for (const std::string name : {"lazy_sgd", "lazy_momentum", "lazy_adagrad", "lazy_adam", "ftrl"}) {
    SCOPED_TRACE(name);
    const auto before = tables(), after = after_steps(run_with_section("{name: " + name + ", lr: 0.1}"), 3, true);
    for (std::int64_t row = 0; row < 20; ++row) {
      const bool touched = row == 3 || row == 11 || (row >= 5 && row < 8);
      EXPECT_EQ(torch::equal(before[1].second[row], after[1].second[row]), !touched) << row;
    }
  }
  // A row that all steps touch is updated as if its gradients were dense.
  for (const std::string name : {"lazy_momentum", "lazy_adam", "ftrl"}) {
    const auto config = run_with_section("{name: " + name + ", lr: 0.1}");
    const auto rows = after_steps(config, 3, true), whole = after_steps(config, 3, false);
    EXPECT_TRUE(torch::allclose(rows[1].second[3], whole[1].second[3], 1e-6, 1e-7)) << name;
    EXPECT_TRUE(torch::equal(rows[2].second, whole[2].second)) << name;
  }
  // Those that leave weights alone which got a zero are the same for all rows.
  for (const std::string name : {"lazy_sgd", "lazy_adagrad"}) {
    const auto config = run_with_section("{name: " + name + ", lr: 0.1}");
    const auto rows = after_steps(config, 3, true), whole = after_steps(config, 3, false);
    EXPECT_TRUE(torch::equal(rows[1].second, whole[1].second)) << name;
  }
}

constexpr const char* kMixed =
    "{name: lazy_adam, lr: 0.1, groups: [{match: [\"wide.*\"], name: ftrl, lr: 0.5, l1: 0.01, l2: 0.02}]}";

TEST(RowOptimizers, MixInGroups) {
  const auto mixed = after_steps(run_with_section(kMixed), 4, true);
  const auto adam = after_steps(run_with_section("{name: lazy_adam, lr: 0.1}"), 4, true);
  const auto parameters = tables();
  const auto ftrl = make_optimizer(run_with_section("{name: ftrl, lr: 0.5, l1: 0.01, l2: 0.02}"), parameters);
  for (int step = 0; step < 4; ++step) {
    set_gradients(parameters, step, true);
    set_learning_rate(*ftrl, 5 * (0.1 / (1 + step)));  // lr: 0.5 is five times the scheduled rate
    ftrl->step();
  }
  EXPECT_TRUE(torch::equal(mixed[0].second, parameters[0].second));
  EXPECT_TRUE(torch::equal(mixed[1].second, adam[1].second));
  EXPECT_TRUE(torch::equal(mixed[2].second, adam[2].second));
}

TEST(RowOptimizers, GoOnFromASavedState) {
  const auto config = run_with_section(kMixed);
  const auto expected = after_steps(config, 6, true);
  const auto parameters = tables();
  NamedTensors state;
  {
    const auto optimizer = make_optimizer(config, parameters);
    for (int step = 0; step < 3; ++step) {
      set_gradients(parameters, step, true);
      set_learning_rate(*optimizer, 0.1 / (1 + step));
      optimizer->step();
    }
    for (const auto& [name, tensor] : optimizer_state(*optimizer, parameters)) state.emplace(name, tensor.clone());
  }
  EXPECT_TRUE(state.contains("wide.weight.z"));
  EXPECT_TRUE(state.contains("deep.weight.exp_avg_sq"));
  EXPECT_EQ(state.at("fc.bias.step").item<std::int64_t>(), 3);
  const auto again = make_optimizer(config, parameters);
  load_optimizer_state(*again, parameters, state);
  for (int step = 3; step < 6; ++step) {
    set_gradients(parameters, step, true);
    set_learning_rate(*again, 0.1 / (1 + step));
    again->step();
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(torch::equal(parameters[i].second, expected[i].second)) << expected[i].first;
  }
}

TEST(RowOptimizers, RefuseWhatTheyCannotDo) {
  expect_error(ErrorKind::config, {"optimizer.groups", "another family"}, [] {
    make_optimizer(run_with_section("{name: adam, lr: 0.1, groups: [{match: [\"wide.*\"], name: ftrl}]}"), tables());
  });
  expect_error(ErrorKind::config, {"optimizer.groups[0].name", "'ftlr'", "ftrl"},
               [] { run_with_section("{name: lazy_adam, lr: 0.1, groups: [{match: [\"wide.*\"], name: ftlr}]}"); });
  expect_error(ErrorKind::config, {"lr and lr_factor"}, [] {
    run_with_section("{name: lazy_adam, lr: 0.1, groups: [{match: [\"wide.*\"], lr: 1, lr_factor: 2}]}");
  });
  expect_error(ErrorKind::config, {"optimizer.groups[0]", "l3"}, [] {
    run_with_section("{name: lazy_adam, lr: 0.1, groups: [{match: [\"wide.*\"], name: ftrl, l3: 1}]}");
  });
  expect_error(ErrorKind::config, {"lazy_adam", "semi_auto", "parallel.mode=data_parallel"}, [] {
    read_run_config(
        parse_config("model: {name: mlp}\ndata: {name: mnist, root: data}\ntrain: {epochs: 1}\n"
                     "optimizer: {name: lazy_adam, lr: 1}\nparallel: {mode: semi_auto}\n",
                     "run.yaml"));
  });
  NamedParameters doubles{{"w", torch::randn({3}, torch::kDouble).requires_grad_()}};
  const auto optimizer = make_optimizer(run_with_section("{name: lazy_sgd, lr: 0.1}"), doubles);
  doubles[0].second.mutable_grad() = torch::ones({3}, torch::kDouble);
  expect_error(ErrorKind::unsupported, {"float32"}, [&] { optimizer->step(); });
}

}  // namespace
}  // namespace lockstep::train
