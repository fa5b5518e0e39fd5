// Rules as tables: the ways to divide a call that must be there, and no others.
#include "rules/sample_call.h"

#include <gtest/gtest.h>

#include <set>

namespace lockstep {
namespace {

using global::OpCall;
using global::TensorAt;
using global::TensorsAt;
using test::call_of;
using test::signatures_of;

struct Row {
  OpCall call;
  std::set<std::string> expected;
  int ranks = 2;
};

void expect_rows(const std::vector<Row>& rows) {
  for (const auto& row : rows) {
    const auto all = signatures_of(row.call, row.ranks);
    const std::set<std::string> found(all.begin(), all.end());
    EXPECT_EQ(found, row.expected) << row.call.name;
  }
}

TEST(Rules, Elementwise) {
  expect_rows({
      {call_of("exp", {{"self", {4, 6}}}, {{4, 6}}), {"S0->S0", "S1->S1"}},
      {call_of("add", {{"self", {4, 6}}, {"other", {4, 6}}}, {{4, 6}}), {"S0,S0->S0", "S1,S1->S1", "P,P->P"}},
      {call_of("add", {{"self", {4, 6}}, {"other", {6}}}, {{4, 6}}), {"S0,R->S0", "S1,S0->S1"}},
      {call_of("mul", {{"self", {4, 1}}, {"other", {6}}}, {{4, 6}}), {"S0,R->S0", "R,S0->S1", "P,R->P", "R,P->P"}},
      {call_of("div", {{"self", {4}}, {"other", {4}}}, {{4}}), {"S0,S0->S0", "P,R->P"}},
      {call_of("where", {{"condition", {4, 1}}, {"self", {4, 6}}, {"other", {}}}, {{4, 6}}),
       {"S0,S0,R->S0", "R,S1,R->S1"}},
  });
}

TEST(Rules, Products) {
  expect_rows({
      {call_of("mm", {{"self", {4, 6}}, {"mat2", {6, 8}}}, {{4, 8}}),
       {"S0,R->S0", "R,S1->S1", "S1,S0->P", "P,R->P", "R,P->P"}},
      {call_of("bmm", {{"self", {3, 4, 6}}, {"mat2", {3, 6, 8}}}, {{3, 4, 8}}),
       {"S0,S0->S0", "S1,R->S1", "R,S2->S2", "S2,S1->P", "P,R->P", "R,P->P"}},
      {call_of("addmm", {{"self", {8}}, {"mat1", {4, 6}}, {"mat2", {6, 8}}}, {{4, 8}}),
       {"R,S0,R->S0", "S0,R,S1->S1", "R,S1,S0->P", "R,P,R->P", "R,R,P->P"}},
      {call_of("mv", {{"self", {4, 6}}, {"vec", {6}}}, {{4}}), {"S0,R->S0", "S1,S0->P", "P,R->P", "R,P->P"}},
      {call_of("dot", {{"self", {6}}, {"tensor", {6}}}, {{}}), {"S0,S0->P", "P,R->P", "R,P->P"}},
  });
}

TEST(Rules, Reductions) {
  expect_rows({
      {call_of("sum", {{"self", {4, 6}}}, {{6}}, {{"dim", global::Sizes{0}}}), {"S1->S0", "S0->P", "P->P"}},
      {call_of("sum", {{"self", {4, 6}}}, {{4, 1}}, {{"dim", global::Sizes{-1}}, {"keepdim", true}}),
       {"S0->S0", "S1->P", "P->P"}},
      {call_of("amax", {{"self", {4, 6}}}, {{6}}, {{"dim", global::Sizes{0}}}), {"S1->S0"}},
      {call_of("var", {{"self", {4, 6}}}, {{6}}, {{"dim", global::Sizes{0}}}), {"S1->S0", "S0->R"}},
      {call_of("linalg_vector_norm", {{"self", {4, 6}}}, {{}}), {"S0->R", "S1->R"}},
      {call_of("cumsum", {{"self", {4, 6}}}, {{4, 6}}, {{"dim", std::int64_t{1}}}), {"S0->S0", "P->P"}},
      {call_of("argmax", {{"self", {4, 6}}}, {{4}}, {{"dim", std::int64_t{1}}}), {"S0->S0"}},
  });
}

TEST(Rules, PartsOfNothingHaveNoMaximum) {
  const auto call = call_of("amax", {{"self", {3, 6}}}, {{6}}, {{"dim", global::Sizes{0}}});
  const auto partial = [&](int ranks) {
    OpCall of_ranks = call;
    of_ranks.ranks = of_ranks.all_ranks = ranks;
    for (const auto& each : global::find_rule("amax")->signatures(of_ranks)) {
      if (each.inputs[0] == Shard(0)) return true;
    }
    return false;
  };
  EXPECT_TRUE(partial(3));
  EXPECT_FALSE(partial(4));
}

TEST(Rules, Views) {
  expect_rows({
      {call_of("view", {{"self", {4, 6}}}, {{24}}), {"S0->S0", "P->P"}},
      {call_of("view", {{"self", {24}}}, {{4, 6}}), {"S0->S0", "P->P"}},
      {call_of("view", {{"self", {3, 6}}}, {{18}}), {"P->P"}},  // the third row would be cut
      {call_of("view", {{"self", {5, 2, 3}}}, {{5, 6}}), {"S0->S0", "S1->S1", "P->P"}},
      {call_of("view", {{"self", {5, 1, 7}}}, {{5, 7, 1}}), {"S0->S0", "S2->S1", "P->P"}},
      {call_of("transpose", {{"self", {4, 6}}}, {{6, 4}}, {{"dim0", std::int64_t{0}}, {"dim1", std::int64_t{-1}}}),
       {"S0->S1", "S1->S0", "P->P"}},
      {call_of("select", {{"self", {4, 6, 2}}}, {{4, 2}}, {{"dim", std::int64_t{1}}}), {"S0->S0", "S2->S1", "P->P"}},
      {call_of("expand", {{"self", {6, 1}}}, {{3, 6, 5}}), {"S0->S1", "P->P"}},
      {call_of("repeat", {{"self", {4, 6}}}, {{2, 4, 18}}, {{"repeats", global::Sizes{2, 1, 3}}}), {"S0->S1", "P->P"}},
      {call_of("flip", {{"self", {4, 6}}}, {{4, 6}}, {{"dims", global::Sizes{1}}}), {"S0->S0", "P->P"}},
  });
}

TEST(Rules, ViewsByStrides) {
  const auto as_strided = [](global::Sizes sizes, global::Sizes strides, std::int64_t offset) {
    auto call = call_of("as_strided", {{"self", {4, 6, 5}}}, {sizes}, {{"storage_offset", offset}});
    call.outputs[0].strides = std::move(strides);
    return call;
  };
  expect_rows({
      {as_strided({4, 5}, {30, 1}, 10), {"S0->S0", "S2->S1", "P->P"}},                 // [:, 2]
      {as_strided({5, 4, 6}, {1, 30, 5}, 0), {"S0->S1", "S1->S2", "S2->S0", "P->P"}},  // permuted
      {as_strided({4, 3, 5}, {30, 10, 1}, 5), {"S0->S0", "S2->S2", "P->P"}},           // [:, 1::2]
      {as_strided({4, 30}, {30, 1}, 0), {}},                                           // two dimensions made one
      {as_strided({4}, {31}, 0), {}},                                                  // a diagonal
  });
}

TEST(Rules, Indexing) {
  const std::pair<std::string, global::Argument> dim1{"dim", std::int64_t{1}};
  expect_rows({
      {call_of("index_select", {{"self", {4, 6}}, {"index", {3}}}, {{4, 3}}, {dim1}),
       {"S0,R->S0", "R,S0->S1", "P,R->P"}},
      {call_of("gather", {{"self", {4, 6}}, {"index", {4, 3}}}, {{4, 3}}, {dim1}), {"S0,S0->S0", "R,S1->S1", "P,R->P"}},
      {call_of("gather", {{"self", {4, 6}}, {"index", {2, 3}}}, {{2, 3}}, {dim1}), {"R,S1->S1", "P,R->P"}},
      {call_of("scatter_add", {{"self", {4, 6}}, {"index", {4, 3}}, {"src", {4, 3}}}, {{4, 6}}, {dim1}),
       {"S0,S0,S0->S0", "P,S1,S1->P"}},
      {call_of("index_add", {{"self", {4, 6}}, {"index", {3}}, {"source", {4, 3}}}, {{4, 6}}, {dim1}),
       {"S0,R,S0->S0", "P,S0,S1->P"}},
  });
}

TEST(Rules, IndicesGoWhereLibtorchPutsThem) {
  // x[:, i, j] of [4, 6, 5, 7]: adjacent indices stay in place; x[:, i, :, j] puts them first.
  const auto index = [](std::vector<std::optional<global::Sizes>> indices, global::Sizes result) {
    OpCall call = call_of("index", {{"self", {4, 6, 5, 7}}}, {result});
    call.arguments.emplace_back("indices", TensorsAt{.first = 1, .count = indices.size()});
    for (const auto& each : indices) {
      call.tensors.push_back(each ? test::shaped(*each) : global::TensorInfo{.sizes = {}, .defined = false});
      call.tensors.back().element_bytes = 8;
    }
    return call;
  };
  using global::Sizes;
  expect_rows({
      {index({std::nullopt, Sizes{3}, Sizes{3}}, {4, 3, 7}),
       {"S0,R,R,R->S0", "S3,R,R,R->S2", "R,R,S0,S0->S1", "P,R,R,R->P"}},
      {index({std::nullopt, Sizes{3}, std::nullopt, Sizes{2, 1}}, {2, 3, 4, 5}),
       {"S0,R,R,R,R->S2", "S2,R,R,R,R->S3", "R,R,R,R,S0->S0", "R,R,S0,R,R->S1", "P,R,R,R,R->P"}},
  });
}

TEST(Rules, EveryRuleSaysWhatItSupports) {
  std::set<std::string_view> names;
  for (const auto& rule : global::all_rules()) {
    EXPECT_FALSE(rule.supports.empty()) << rule.op;
    EXPECT_NE(rule.signatures, nullptr) << rule.op;
    EXPECT_TRUE(names.insert(rule.op).second) << rule.op << " has two rules";
  }
}

}  // namespace
}  // namespace lockstep
