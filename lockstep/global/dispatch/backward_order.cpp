#include <lockstep/global/dispatch/backward_order.h>
#include <lockstep/global/tensor_state.h>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

namespace lockstep::global {
namespace {

using torch::autograd::Engine;
using torch::autograd::GraphRoot;
using torch::autograd::GraphTask;
using torch::autograd::InputBuffer;
using torch::autograd::Node;
using torch::autograd::ReadyQueue;

/// Replaces `slot` by `queue` while it exists.
class Borrowed {
 public:
  Borrowed(std::shared_ptr<ReadyQueue>& slot, std::shared_ptr<ReadyQueue> queue) : slot_(slot), own_(std::move(slot)) {
    slot_ = std::move(queue);
  }
  ~Borrowed() { slot_ = std::move(own_); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

 private:
  std::shared_ptr<ReadyQueue>& slot_;
  std::shared_ptr<ReadyQueue> own_;
};

bool begins_with_global(const Node& root, InputBuffer& inputs) {
  if (const auto* several = dynamic_cast<const GraphRoot*>(&root)) {
    return std::any_of(several->outputs.begin(), several->outputs.end(), is_global);
  }
  for (std::uint32_t i = 0; i < root.num_inputs(); ++i) {
    if (is_global(inputs[i])) return true;
  }
  return false;
}

/// Whether a backward contains global tensors: it may begin with an ordinary tensor (full(loss), to_local(y)).
bool leads_to_global(const GraphTask& task) {
  return std::any_of(task.nodes_in_graph_.begin(), task.nodes_in_graph_.end(), [](const Node* node) {
    for (std::uint32_t i = 0; i < node->num_inputs(); ++i) {
      if (node->input_metadata(i).device().type() == kDeviceType) return true;
    }
    return false;
  });
}

class OrderedEngine : public Engine {
 public:
  ~OrderedEngine() override { stop(); }

  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(const std::shared_ptr<GraphTask>& task,
                                                                 std::shared_ptr<Node> root,
                                                                 InputBuffer&& inputs) override {
    if (!begins_with_global(*root, inputs) && !leads_to_global(*task)) {
      return Engine::execute_with_graph_task(task, std::move(root), std::move(inputs));
    }
    initialize_device_threads_pool();
    // Tasks for the device's thread go to the queue of the calling thread.
    const Borrowed queue(device_ready_queues_.at(0), task->cpu_ready_queue_);
    return Engine::execute_with_graph_task(task, std::move(root), std::move(inputs));
  }
};

Engine& ordered_engine() {
  static OrderedEngine engine;
  return engine;
}

}  // namespace

void order_backward() {
  if (&Engine::get_default_engine() == &Engine::get_base_engine()) {
    torch::autograd::set_default_engine_stub(ordered_engine);
  }
}

}  // namespace lockstep::global
