// Operators write into arguments: what they write reaches the caller's global tensor, or the call is an error.
#include <lockstep/base/error.h>
#include <lockstep/compat/global_device.h>
#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/global_tensor.h>

#include "base/expect_error.h"
#include "every_placement.h"
#include "support/ranks.h"

#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using global::op_info;
using test::CaseInput;
using test::OperatorCase;
using test::Rank;
using test::RankOptions;
using Tensors = std::vector<torch::Tensor>;

void on_ranks(int ranks, const std::function<void(Rank&, const Mesh&)>& body) {
  const RankOptions options{.group = RankOptions::test_group_options("shm")};
  test::run_ranks(ranks, options, [&](Rank& rank) { body(rank, Mesh(rank.group())); });
}

bool is_written(const c10::Argument& argument) { return argument.alias_info() && argument.alias_info()->isWrite(); }

/// How many ways the kernel has for what is written to an argument.
int ways_back(const global::OpInfo& info, std::size_t argument) {
  return (info.written_self == argument ? 1 : 0) + (info.is_out[argument] ? 1 : 0) +
         (info.writes_beside(argument) ? 1 : 0);
}

/// What comes back through a result needs one that is said to be the argument.
bool comes_back(const global::OpInfo& info, std::size_t argument) {
  return std::find(info.returned_argument.begin(), info.returned_argument.end(), argument) !=
         info.returned_argument.end();
}

TEST(GlobalWrites, EverySchemaSaysHowTheyReachTheCaller) {
  auto& dispatcher = c10::Dispatcher::singleton();
  int written = 0;
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op) continue;
    const auto& info = op_info(*op);
    for (std::size_t i = 0; i < op->schema().arguments().size(); ++i) {
      if (!is_written(op->schema().arguments()[i])) continue;
      ++written;
      EXPECT_EQ(ways_back(info, i), 1) << op->schema();
      if (info.writes_beside(i) || comes_back(info, i)) continue;
      EXPECT_TRUE(info.loses_writes) << op->schema() << "\nwould lose what is written to argument " << i;
    }
  }
  EXPECT_GT(written, 1000);
}

CaseInput some(std::vector<std::int64_t> sizes) { return {.value = torch::randn(sizes)}; }
CaseInput fixed(const torch::Tensor& value) { return {.value = value, .differentiate = false}; }

std::vector<OperatorCase> writing_operators() {
  return {
      {"rrelu in training",
       {some({5, 3})},
       [](const Tensors& in) {
         torch::manual_seed(5);
         return Tensors{at::rrelu(in[0], 0.1, 0.3, /*training=*/true)};
       }},
      {"rrelu_ in training",
       {some({5, 3})},
       [](const Tensors& in) {
         torch::manual_seed(5);
         auto own = in[0] * 1;
         return Tensors{at::rrelu_(own, 0.1, 0.3, /*training=*/true)};
       }},
      {"the noise of rrelu",
       {fixed(torch::randn({5, 3})), fixed(torch::zeros({5, 3}))},
       [](const Tensors& in) {
         torch::manual_seed(5);
         auto noise = in[1].clone();  // not const: newer libtorch versions take a reference
         const auto result = at::rrelu_with_noise(in[0], noise, 0.1, 0.3, /*training=*/true);
         return Tensors{result, noise};
       }},
      {"cumulative maxima with their places",
       {fixed(torch::randn({5, 3})), fixed(torch::zeros({5, 3})), fixed(torch::zeros({5, 3}, torch::kLong))},
       [](const Tensors& in) {
         auto values = in[1].clone();
         auto places = in[2].clone();
         at::_cummax_helper(in[0], values, places, 0);
         return Tensors{values, places};
       }},
      {"the observed range of quantized numbers",
       {fixed(torch::randn({5, 3})), fixed(torch::ones({1}, torch::kLong)), fixed(torch::tensor({-0.5F})),
        fixed(torch::tensor({0.25F})), fixed(torch::ones({1})), fixed(torch::zeros({1}, torch::kInt))},
       [](const Tensors& in) {
         Tensors own;
         for (const auto& each : in) own.push_back(each.clone());
         const auto result = at::fused_moving_avg_obs_fake_quant(own[0], own[1], own[1], own[2], own[3], own[4], own[5],
                                                                 0.5, 0, 255, 0);
         own.push_back(result);
         return own;
       }},
      {"an operator of the user's",
       {fixed(torch::randn({5, 3})), fixed(torch::randn({5, 3})), fixed(torch::randn({4}))},
       [](const Tensors& in) {
         static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("lockstep_test::write_beside", "");
         const Tensors own{in[1].clone(), in[2].clone(), in[2].clone()};
         torch::jit::Stack stack{in[0], own[0], c10::List<at::Tensor>({own[1], own[2]})};
         op.callBoxed(stack);
         return Tensors{stack.at(0).toTensor(), own[0], own[1], own[2]};
       }},
      {"an operator of the user's without a result",
       {fixed(torch::randn({5, 3})), fixed(torch::randn({5, 3}))},
       [](const Tensors& in) {
         static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("lockstep_test::write_all", "");
         const Tensors own{in[0].clone(), in[1].clone()};
         torch::jit::Stack stack{c10::List<at::Tensor>({own[0], own[1]}), 3.0};
         op.callBoxed(stack);
         return own;
       }},
  };
}

at::Tensor write_beside(const at::Tensor& x, const at::Tensor& y, at::TensorList z) {
  y.add_(x.sum(0));
  for (const auto& each : z) each.mul_(2).add_(y.sum());
  return x.sum();
}

void write_all(at::TensorList x, double number) {
  for (const auto& each : x) each.mul_(number).sub_(each.sum());
}

void give(const at::Tensor& x, at::TensorList out) {
  for (const auto& each : out) each.copy_(x);
}

/// Operators such as a user's library has, for ordinary tensors.
struct UsersOperators {
  torch::Library library{torch::Library::DEF, "lockstep_test", c10::nullopt, __FILE__, __LINE__};
  torch::Library kernels{torch::Library::IMPL, "lockstep_test", c10::DispatchKey::CPU, __FILE__, __LINE__};
  torch::Library derivatives{torch::Library::IMPL, "lockstep_test", lockstep::compat::kGlobalAutogradKey, __FILE__,
                             __LINE__};
  UsersOperators() {
    library.def("write_beside(Tensor x, Tensor(a!) y, Tensor(b!)[] z) -> Tensor");
    library.def("write_all(Tensor(a!)[] x, float number) -> ()");
    library.def("give(Tensor x, *, Tensor(a!)[] out) -> ()");
    for (const char* each : {"write_beside", "write_all", "give"}) {
      derivatives.impl(each, torch::CppFunction::makeFallthrough());  // there are none
    }
    kernels.impl("write_beside", write_beside);
    kernels.impl("write_all", write_all);
    kernels.impl("give", give);
  }
};

TEST(GlobalWrites, ReachTheCaller) {
  const UsersOperators operators;
  for (const int ranks : {1, 2, 4}) {
    on_ranks(ranks, [](Rank&, const Mesh& mesh) {
      torch::manual_seed(1);
      for (const auto& each : writing_operators()) {
        ASSERT_NO_FATAL_FAILURE(test::expect_as_on_one_device(each, mesh, 24));
      }
    });
  }
}

TEST(GlobalWrites, ThatCannotReachTheCallerAreAnError) {
  const UsersOperators operators;
  on_ranks(2, [](Rank&, const Mesh& mesh) {
    const auto x = distribute(torch::ones({4}), mesh, {Shard(0)});
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("lockstep_test::give", "");
    torch::jit::Stack stack{x, c10::List<at::Tensor>({x.clone()})};
    try {
      op.callBoxed(stack);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported);
      test::expect_words(error.what(), {"lockstep_test::give", "out", "full("});
    }
  });
}

}  // namespace
}  // namespace lockstep
