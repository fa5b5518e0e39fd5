// Wrong and differing arguments: an error on every rank, and the group goes on.
#include "comm/suite.h"

namespace lockstep::test {
namespace {

class Arguments : public CommSuite {};
INSTANTIATE_TEST_SUITE_P(All, Arguments, testing::ValuesIn(cases()), case_name);

void expect_refused(const std::function<void()>& call, const std::vector<std::string>& words) {
  const auto error = error_of(call);
  EXPECT_EQ(error.kind(), ErrorKind::invalid_argument) << error.what();
  expect_words(error, words);
}

TEST_P(Arguments, RulesAreTold) {
  run([](Rank& rank) {
    for (const bool checked : {true, false}) {
      const auto group = checked ? rank.group() : rank.group().unchecked();
      const auto n = std::to_string(rank.size());
      auto floats = at::ones({2, 3});
      auto ints = at::ones({2}, at::kInt);
      auto undefined = at::Tensor();
      auto complex = at::ones({2}, at::kComplexFloat);
      auto expanded = at::ones({1}).expand({4});
      auto sparse = at::ones({2, 2}).to_sparse();

      expect_refused([&] { all_reduce(undefined, group); }, {"undefined"});
      expect_refused([&] { all_reduce(sparse, group); }, {"dense"});
      expect_refused([&] { all_reduce(expanded, group); }, {"share memory", "clone"});
      expect_refused([&] { all_reduce(complex, group, ReduceOp::max); }, {"max of complex numbers", "sum and mean"});
      expect_refused([&] { all_reduce(ints, group, ReduceOp::mean); }, {"mean", "int32"});
      expect_refused([&] { reduce(floats, group, rank.size()); },
                     {"root " + n, "0.." + std::to_string(rank.size() - 1)});
      expect_refused([&] { broadcast(floats, group, -1); }, {"root -1"});
      auto uneven = at::ones({rank.size() + 1, 2});
      if (rank.size() > 1) {
        expect_refused([&] { reduce_scatter(uneven, group); }, {"dimension 0", "float32[", n + " ranks"});
        expect_refused([&] { all_to_all(uneven, group); }, {"dimension 0"});
        expect_refused([&] { scatter(uneven, group, rank.rank(), at::Tensor()); }, {"dimension 0"});
      }
      expect_refused([&] { reduce_scatter(at::ones({}), group); }, {"dimension 0"});
      auto small = at::ones({rank.size() * 6 + 1});
      expect_refused([&] { all_gather_async(small, floats, group); }, {"contiguous", std::to_string(rank.size() * 6)});
      // A device that no group has, as there may be none here.
      auto elsewhere = at::ones({2}, at::kMeta);
      expect_refused([&] { all_reduce(elsewhere, group); }, {"is on meta", "\"world\"", "carries tensors on the CPU"});
      auto output = at::ones({rank.size() * 2});
      expect_refused([&] { all_gather_async(output, elsewhere, group); }, {"output is on cpu", "tensor on meta"});
      if (rank.size() > 1) {
        expect_refused([&] { send(elsewhere, group, 1 - std::min(rank.rank(), 1)); }, {"is on meta"});
      }
      expect_refused([&] { all_gather(undefined, group); }, {"undefined"});
      expect_refused([&] { send(floats, group, rank.rank()); }, {"this rank itself"});
      expect_refused([&] { send(floats, group, rank.size()); }, {"destination " + n});
      if (rank.size() > 1) {
        expect_refused([&] { send(floats, group, 1 - std::min(rank.rank(), 1), -1); }, {"tag -1"});
      }
      expect_refused([&] { allocate(group, -1, static_cast<int>(at::kFloat)); }, {"-1", "negative"});
      expect_refused([&] { allocate(group, 1, 1000); }, {"1000", "dtype"});
      barrier(group);
    }
  });
}

TEST_P(Arguments, DifferencesBetweenRanksAreAnErrorOnAllOfThem) {
  if (size() == 1) GTEST_SKIP() << "one rank has nobody to differ from";
  run([](Rank& rank) {
    const bool last = rank.rank() == rank.size() - 1;
    const auto name_of_last = "rank " + std::to_string(rank.size() - 1) + ": ";
    const auto expect_mismatch = [&](const std::function<void()>& call, const std::vector<std::string>& words) {
      const auto error = error_of(call);
      EXPECT_EQ(error.kind(), ErrorKind::mismatch) << error.what();
      expect_words(error, words);
    };
    auto tensor = at::ones({last ? 3 : 2, 5});
    expect_mismatch([&] { all_reduce(tensor, rank.group()); },
                    {"all_reduce sum of float32[2, 5]", name_of_last + "all_reduce sum of float32[3, 5]"});
    auto transposed = at::ones(last ? std::vector<std::int64_t>{2, 3} : std::vector<std::int64_t>{3, 2});
    expect_mismatch([&] { all_reduce(transposed, rank.group()); }, {"float32[3, 2]", "float32[2, 3]"});
    auto typed = at::ones({4}, last ? at::kInt : at::kFloat);
    expect_mismatch([&] { broadcast(typed, rank.group()); }, {"float32[4]", name_of_last + "broadcast of int32[4]"});
    auto same_shape = at::ones({4});
    expect_mismatch([&] { all_reduce(same_shape, rank.group(), last ? ReduceOp::max : ReduceOp::sum); },
                    {"all_reduce sum", "all_reduce max"});
    expect_mismatch([&] { broadcast(same_shape, rank.group(), last ? 1 : 0); }, {"from 0", "from 1"});
    expect_mismatch(
        [&] {
          if (last) {
            barrier(rank.group());
          } else {
            all_gather(same_shape, rank.group());
          }
        },
        {"all_gather of float32[4]", name_of_last + "barrier"});
    auto elsewhere = at::ones({4}, last ? at::kMeta : at::kCPU);
    const auto misplaced = error_of([&] { all_reduce(elsewhere, rank.group()); });
    EXPECT_EQ(misplaced.kind(), last ? ErrorKind::invalid_argument : ErrorKind::mismatch);
    expect_words(misplaced, {"is on meta"});
    auto nothing = at::ones({last ? 1 : 0});
    expect_mismatch([&] { all_reduce(nothing, rank.group()); }, {"float32[0]", "float32[1]"});

    // A call that only one rank gets wrong by itself.
    auto defined = last ? at::Tensor() : at::ones({2});
    const auto error = error_of([&] { all_reduce(defined, rank.group()); });
    EXPECT_EQ(error.kind(), last ? ErrorKind::invalid_argument : ErrorKind::mismatch);
    expect_words(error, {"undefined"});

    // Nothing was lost: the group works on.
    EXPECT_TRUE(same(same_shape, at::ones({4})));
    all_reduce(same_shape, rank.group());
    EXPECT_TRUE(same(same_shape, at::full({4}, static_cast<float>(rank.size()))));
  });
}

}  // namespace
}  // namespace lockstep::test
