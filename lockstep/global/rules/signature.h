// The signatures of a sharding rule: the ways to divide one operator's work along one mesh axis. Pure.
#pragma once

#include <lockstep/global/placement.h>
#include <lockstep/global/rules/op_call.h>

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep::global {

/// If the inputs lie so, then each rank can work on what it has (perhaps with small collectives that the operator's
/// local form makes by itself), and the results lie so. An input that is nullopt may lie in any way.
struct Signature {
  std::vector<std::optional<Placement>> inputs;  ///< one for each of OpCall::tensors
  std::vector<Placement> outputs;                ///< one for each of OpCall::outputs
  /// What is divided counts as many groups, and divides evenly; else the divided dimensions of the inputs are of one
  /// size, or the call is wrong.
  bool in_groups = false;
};

/// All inputs and outputs replicated: right for every operator, and the first choice where nothing else is cheaper.
Signature replicated(const OpCall& call);

/// The sharding rule of an operator, in all its overloads, in-place and out variants.
struct Rule {
  std::string_view op;
  /// The signatures besides `replicated`, those to be preferred first. Only called with known output shapes. Both may
  /// throw std::out_of_range for arguments that libtorch refuses.
  std::vector<Signature> (*signatures)(const OpCall& call) = nullptr;
  /// Shapes of the results, for operators that have no kernel for tensors without data (meta tensors).
  std::vector<Sizes> (*shapes)(const OpCall& call) = nullptr;
  /// Arguments called ..._lengths say how long the sequences of a batch are, so they are new in every batch: the
  /// answers may depend on how many there are and on the longest, on nothing else in them.
  bool has_lengths = false;
  bool needs_all = false;     ///< the answer depends on every element, so that gathering is no want of a rule
  std::string_view supports;  ///< for the table in the documentation: what may be divided
};

/// The rule of an operator, nullptr where there is none and it falls back to replicated inputs.
const Rule* find_rule(std::string_view op);

struct RuleFamily {
  std::string_view title;
  std::span<const Rule> rules;
};
std::vector<RuleFamily> rule_families();

/// All rules, in the order of the families.
std::vector<Rule> all_rules();

// The families, one file each.
std::span<const Rule> elementwise_rules();
std::span<const Rule> matmul_rules();
std::span<const Rule> reduction_rules();
std::span<const Rule> view_rules();
std::span<const Rule> strided_rules();
std::span<const Rule> indexing_rules();
std::span<const Rule> factory_rules();
std::span<const Rule> batched_product_rules();
std::span<const Rule> convolution_rules();
std::span<const Rule> pooling_rules();
std::span<const Rule> normalization_rules();
std::span<const Rule> softmax_rules();
std::span<const Rule> loss_rules();
std::span<const Rule> embedding_rules();

}  // namespace lockstep::global
