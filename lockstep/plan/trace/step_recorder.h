// The recorder of operators on planning tensors, which have shapes but no memory; it builds the graph of a step.
#pragma once

#include <lockstep/global/dispatch/kernels.h>
#include <lockstep/global/dispatch/plan.h>
#include <lockstep/global/mesh_state.h>
#include <lockstep/plan/graph.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace lockstep::plan {

/// Returns results with the shapes that the operator would give and, between begin() and pause(), appends the operator
/// to the graph. A tensor that first appears there without a name is a buffer, or optimizer state in the optimizer
/// phase.
class StepRecorder final : public global::Recorder {
 public:
  void record(const c10::OperatorHandle& op, const global::OpInfo& info, global::KeyView key,
              const torch::jit::Stack& arguments, torch::jit::Stack& results) override;

  void begin(Phase phase) { phase_ = phase; }
  void pause() { phase_.reset(); }

  /// Makes a tensor a value of the graph. `module` is the owner of a parameter or buffer.
  std::size_t name(const at::Tensor& tensor, ValueKind kind, std::string name, std::string module = {});
  void set_containers(std::set<std::string, std::less<>> containers) { containers_ = std::move(containers); }

  /// From here on, operators belong to the derivative of an operator of this module.
  void enter(std::string module) { entered_ = std::move(module); }
  /// The module of the operator whose node in autograd's graph has this sequence number; "" if there is none.
  std::string module_of_sequence(std::uint64_t number) const;
  std::string module_of_value(std::size_t value) const { return origins_.at(value).module; }

  Graph& graph() { return graph_; }

 private:
  /// The origin of a value.
  struct Origin {
    std::string module;
    bool of_parameters = false;  ///< a parameter, or computed only from parameters
    bool nobodys = true;         ///< computed from the batch only, or from nothing (a mask): belongs to no module
    std::size_t node = 0;        ///< the last node that wrote it, counted from 1
  };

  std::size_t add(Value value, Origin origin);
  std::size_t value_of(const at::Tensor& tensor);
  const global::Plan& plan_of(const c10::OperatorHandle& op, const global::OpInfo& info, global::KeyView key,
                              const torch::jit::Stack& arguments, global::MeshState& mesh);
  at::Tensor made(const std::shared_ptr<global::MeshState>& mesh, const global::Plan& plan, Node* node);
  void written(const global::OpInfo& info, const at::Tensor& own, const global::Plan& plan, Node* node);
  /// The origins of the inputs that determine the module of the call.
  std::vector<const Origin*> telling_origins(const Node& node) const;
  std::string module_of_call(const Node& node) const;
  void append(Node node);

  Graph graph_;
  std::vector<Origin> origins_;  ///< one for each value
  std::optional<Phase> phase_;
  std::string entered_;
  std::set<std::string, std::less<>> containers_;
  std::unordered_map<std::uint64_t, std::string> by_sequence_;
  std::size_t next_output_ = 0;  ///< index of the next output of the call in progress
};

/// The mesh of such tensors, with one rank. The tensors keep it alive.
struct PlanningMesh {
  std::shared_ptr<StepRecorder> recorder;
  std::shared_ptr<global::MeshState> state;
};

/// Creates the mesh. Does not communicate.
PlanningMesh make_planning_mesh();

at::Tensor planning_tensor(const PlanningMesh& mesh, const global::LogicalShape& shape);

}  // namespace lockstep::plan
