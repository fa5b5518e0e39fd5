#include "comm/suite.h"

#include <algorithm>

#include "support/thorough.h"

namespace lockstep::test {

std::vector<Case> cases() {
  if (const auto size = mpirun_size()) return {{"mpi", *size}, {"hierarchy", *size}};
  // Not a power of two and ranks on two hosts are what differs most; two equal hosts have a way of their own.
  if (!thorough()) {
    return {{"shm", 2}, {"shm", 3}, {"tcp", 3}, {"tls", 3}, {"hierarchy", 3}, {"hierarchy", 4}, {"hierarchy_tls", 3}};
  }
  std::vector<Case> all;
  for (const auto* backend : {"tcp", "shm", "tls", "hierarchy"}) {
    for (int size = 1; size <= 4; ++size) all.emplace_back(backend, size);
  }
  all.emplace_back("hierarchy_tls", 3);
  all.emplace_back("hierarchy_tls", 4);
  return all;
}

RankOptions options_of(const Case& one) {
  RankOptions options;
  const bool encrypted = one.first == "hierarchy_tls";
  options.group = RankOptions::test_group_options(encrypted ? "tls" : one.first);
  if (encrypted) options.group.backend = "hierarchy";
  options.hosts = hosts_of(one);
  return options;
}

std::vector<std::string> hosts_of(const Case& one) {
  if (!one.first.starts_with("hierarchy")) return {};
  switch (one.second) {
    case 2: return {"alpha", "beta"};
    case 3: return {"alpha", "beta", "alpha"};
    case 4: return {"alpha", "alpha", "beta", "beta"};
    default: return std::vector<std::string>(static_cast<std::size_t>(one.second), "alpha");
  }
}

std::vector<int> neighbours(const std::vector<std::string>& hosts, std::vector<int> members, int rank) {
  if (hosts.empty()) return members;
  const auto host_of = [&](int one) { return hosts.at(static_cast<std::size_t>(one)); };
  std::erase_if(members, [&](int one) { return host_of(one) != host_of(rank); });
  return members;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  return info.param.first + "_" + std::to_string(info.param.second);
}

void CommSuite::run(const RankBody& body, const std::function<void(RankOptions&)>& change) const {
  auto options = options_of(GetParam());
  if (change) change(options);
  run_ranks(size(), options, body);
}

const std::vector<at::ScalarType>& reduced_dtypes() {
  static const std::vector<at::ScalarType> dtypes = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kByte,
                                                     at::kChar,  at::kShort,  at::kInt,  at::kLong,     at::kBool};
  return dtypes;
}

const std::vector<at::ScalarType>& moved_dtypes() {
  static const std::vector<at::ScalarType> dtypes = [] {
    auto all = reduced_dtypes();
    all.push_back(at::kComplexFloat);
    all.push_back(at::kComplexDouble);
    return all;
  }();
  return dtypes;
}

at::Tensor numbers(int rank, at::IntArrayRef shape, at::ScalarType dtype) {
  std::int64_t count = 1;
  for (const auto extent : shape) count *= extent;
  // 1 or 2 here and there, and 3 rarely, so that products of four stay below 128 and sums of four below 13.
  const auto index = at::arange(count, at::kLong);
  auto values = (index + rank).remainder(2) + 1 + (5 * index + 3 * rank).remainder(7).eq(0).to(at::kLong);
  if (dtype == at::kBool) values = values.remainder(2);
  return values.to(dtype).view(shape);
}

at::Tensor reduced_numbers(int size, at::IntArrayRef shape, at::ScalarType dtype, ReduceOp op) {
  const bool all_or_any = dtype == at::kBool;
  auto result = numbers(0, shape, dtype).to(at::kFloat);
  for (int rank = 1; rank < size; ++rank) {
    const auto other = numbers(rank, shape, dtype).to(at::kFloat);
    switch (op) {
      case ReduceOp::sum: result = all_or_any ? at::maximum(result, other) : result + other; break;
      case ReduceOp::mean: result = result + other; break;
      case ReduceOp::min: result = at::minimum(result, other); break;
      case ReduceOp::max: result = at::maximum(result, other); break;
      case ReduceOp::product: result = result * other; break;
    }
  }
  if (op == ReduceOp::mean) result = result.to(dtype == at::kDouble ? at::kDouble : at::kFloat) / size;
  return result.to(dtype);
}

at::Tensor in_tree_order(const std::vector<at::Tensor>& tensors) {
  if (tensors.size() == 1) return tensors.front();
  std::size_t left = 1;
  while (left * 2 < tensors.size()) left *= 2;
  const auto middle = tensors.begin() + static_cast<std::ptrdiff_t>(left);
  return in_tree_order({tensors.begin(), middle}) + in_tree_order({middle, tensors.end()});
}

testing::AssertionResult same(const at::Tensor& actual, const at::Tensor& expected) {
  if (!actual.defined() || !expected.defined()) {
    return actual.defined() == expected.defined() ? testing::AssertionSuccess()
                                                  : testing::AssertionFailure() << "one is undefined";
  }
  if (actual.scalar_type() != expected.scalar_type() || actual.sizes() != expected.sizes()) {
    return testing::AssertionFailure() << actual.toString() << actual.sizes() << " is not " << expected.toString()
                                       << expected.sizes();
  }
  if (at::equal(actual, expected)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "values differ: "
                                     << actual.flatten().narrow(0, 0, std::min<std::int64_t>(8, actual.numel()))
                                     << " is not "
                                     << expected.flatten().narrow(0, 0, std::min<std::int64_t>(8, expected.numel()));
}

Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was thrown";
  return Error(ErrorKind::invalid_argument, "test", "no error was thrown");
}

void expect_words(const Error& error, const std::vector<std::string>& words) {
  const std::string text = error.what();
  for (const auto& word : words) EXPECT_NE(text.find(word), std::string::npos) << "no \"" << word << "\" in: " << text;
}

}  // namespace lockstep::test
