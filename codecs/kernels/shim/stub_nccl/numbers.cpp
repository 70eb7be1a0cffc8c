// What collectives do with bytes and numbers.
#include <cstring>

#include "nccl.h"

namespace stub_nccl {

// By `ncclDataType_t`. Half precision is moved, not added.
size_t width_of(int type) {
  static const size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return type >= 0 && type < 10 ? widths[type] : 0;
}

template <class T>
static T combine(int reduction, T a, T b) {
  switch (reduction) {
    case 1: return a * b;
    case 2: return a > b ? a : b;
    case 3: return a < b ? a : b;
    default: return a + b;
  }
}

// `count` numbers from the `first` on, of all ranks, in their order.
template <class T>
static void reduce(const Meeting& meeting, size_t first, size_t count, std::vector<char>& result) {
  enum { AVG = 4 };
  const int reduction = meeting.by_rank[0]->reduction;
  T* const to = (T*)result.data();
  for (size_t i = 0; i < count; i++) {
    T sum = ((const T*)meeting.by_rank[0]->send)[first + i];
    for (size_t rank = 1; rank < meeting.by_rank.size(); rank++) {
      sum = combine(reduction, sum, ((const T*)meeting.by_rank[rank]->send)[first + i]);
    }
    to[i] = reduction == AVG ? (T)(sum / (T)meeting.by_rank.size()) : sum;
  }
}

static std::vector<char> reduced(const Meeting& meeting, size_t first, size_t count) {
  const int type = meeting.by_rank[0]->type;
  std::vector<char> result(count * width_of(type));
  switch (type) {
    case 0: reduce<int8_t>(meeting, first, count, result); break;
    case 1: reduce<uint8_t>(meeting, first, count, result); break;
    case 2: reduce<int32_t>(meeting, first, count, result); break;
    case 3: reduce<uint32_t>(meeting, first, count, result); break;
    case 4: reduce<int64_t>(meeting, first, count, result); break;
    case 5: reduce<uint64_t>(meeting, first, count, result); break;
    case 7: reduce<float>(meeting, first, count, result); break;
    case 8: reduce<double>(meeting, first, count, result); break;
  }
  return result;
}

void perform(const World&, const Meeting& meeting) {
  const Operation& facts = *meeting.by_rank[0];
  const size_t ranks = meeting.by_rank.size(), len = facts.count * width_of(facts.type);
  // Aside first: buffers may be the same.
  std::vector<std::vector<char>> results(ranks);
  for (size_t rank = 0; rank < ranks && len != 0; rank++) {
    std::vector<char>& result = results[rank];
    const char* const root = (const char*)meeting.by_rank[(size_t)facts.peer]->send;
    switch (facts.kind) {
      case Kind::BROADCAST: result.assign(root, root + len); break;
      case Kind::ALL_GATHER:
        for (const Operation* from : meeting.by_rank) {
          result.insert(result.end(), (const char*)from->send, (const char*)from->send + len);
        }
        break;
      case Kind::REDUCE_SCATTER: result = reduced(meeting, rank * facts.count, facts.count); break;
      case Kind::ALL_REDUCE: result = reduced(meeting, 0, facts.count); break;
      default: break;
    }
  }
  for (size_t rank = 0; rank < ranks; rank++) {
    if (!results[rank].empty()) memcpy(meeting.by_rank[rank]->recv, results[rank].data(), results[rank].size());
  }
}

}  // namespace stub_nccl
