// The emulator's scheduler, its checks, and its C entry points. See prelude.h.
#include "prelude.h"

#include <random>

namespace nk {

thread_local Machine* M = nullptr;

std::map<std::string, Kernel>& kernels() {
    static std::map<std::string, Kernel> k;
    return k;
}

void Machine::fail(Kind k, const std::string& m) {
    if (kind == Kind::None) {
        kind = k;
        message = m + " [block " + std::to_string(block_x) + "," + std::to_string(block_y) + ", thread " +
                  std::to_string(current ? current->tid : 0) + "]";
    }
    current->state = State::Done;
    for (;;) yield();            // this fiber never runs again; the scheduler sees `kind`
}

// Barriers order shared memory only, so for buffers the whole launch is one epoch: a thread may touch again only what it
// wrote itself.
void note_read(const Region& r, size_t i, size_t size) {
    Machine& m = *M;
    m.loads++;
    if (r.defined) {
        for (size_t b = 0; b < size; ++b)
            if (!r.defined[i * size + b]) m.fail(Kind::Undefined, "read of " + r.at(i));
    }
    if (!r.shadow) return;
    Access& a = r.shadow[i];
    const uint32_t t = m.thread(), e = r.is_shared ? m.epoch : 1;
    if (r.is_shared && !a.written) m.fail(Kind::Undefined, "read of shared " + r.at(i));
    if (a.written && a.w_epoch == e && a.w_thread != t)
        m.fail(Kind::Race, "read of " + r.at(i) + ", written by thread " + std::to_string(a.w_thread % m.threads) +
                               " with no barrier in between");
    a.r_many = a.read && a.r_epoch == e && (a.r_many || a.r_thread != t);
    a.read = true;
    a.r_epoch = e;
    a.r_thread = t;
}

void note_write(const Region& r, size_t i, size_t size) {
    Machine& m = *M;
    m.stores++;
    if (r.defined) std::memset(r.defined + i * size, 1, size);
    Access& a = r.shadow[i];
    const uint32_t t = m.thread(), e = r.is_shared ? m.epoch : 1;
    if (a.written && a.w_epoch == e && a.w_thread != t) m.fail(Kind::Race, "second write of " + r.at(i) + " by another thread");
    if (a.read && a.r_epoch == e && (a.r_many || a.r_thread != t))
        m.fail(Kind::Race, "write of " + r.at(i) + ", which another thread reads");
    a.written = true;
    a.w_epoch = e;
    a.w_thread = t;
}

SharedRegion shared_region(const char* name, size_t length, size_t size) {
    SharedArray& s = M->shared[name];
    if (s.bytes.empty()) {
        s.bytes.assign(length * size, (char)0xff);   // NaN: garbage must not look like zero
        s.shadow.assign(length, Access{});
    }
    return {{name, length, s.shadow.data(), nullptr, true}, s.bytes.data()};
}

void barrier(const char* file, int line) {
    Machine& m = *M;
    Fiber& f = *m.current;
    const nk_u32 k = f.barriers++;
    f.site = {file, line};
    if ((int64_t)k == m.skip_barrier) return;
    f.state = State::Barrier;
    m.yield();
}

float shuffle(float v, nk_u32 source, const char* file, int line) {
    Machine& m = *M;
    Fiber& f = *m.current;
    f.value = v;
    f.source = source;
    f.site = {file, line};
    f.state = State::Simd;
    m.yield();
    return f.result;
}

float f32_from_f16(nk_u16 h) {
    const int exponent = (h >> 10) & 31, fraction = h & 1023;
    float f = exponent == 0 ? std::ldexp((float)fraction, -24) : std::ldexp((float)(fraction | 1024), exponent - 25);
    if (exponent == 31) f = fraction ? f32_from_bits(0x7fc00000u) : f32_from_bits(0x7f800000u);
    return h & 0x8000 ? -f : f;
}

nk_u16 f16_from_f32(float f) {
    const nk_u32 u = bits_from_f32(f), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (nk_u16)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return (nk_u16)(sign | 0x7c00u);       // rounds to infinity
    if (magnitude < 0x38800000u)                                          // subnormal: units of 2^-24
        return (nk_u16)(sign | (nk_u32)std::nearbyint(std::ldexp(f32_from_bits(magnitude), 24)));
    const nk_u32 rounded = magnitude + 0x0fffu + ((magnitude >> 13) & 1u);
    return (nk_u16)(sign | ((rounded - 0x38000000u) >> 13));
}

static void entry() {
    M->body();
    M->current->state = State::Done;
    for (;;) M->yield();
}

static std::string base_name(const char* file) {
    const std::string s(file);
    return s.substr(s.find_last_of('/') + 1);
}

static std::string where(const Fiber& f) {
    const std::string at = base_name(f.site.file) + ":" + std::to_string(f.site.line);
    switch (f.state) {
        case State::Done: return "finished";
        case State::Barrier: return "at the barrier " + at;
        case State::Simd: return "at the shuffle " + at;
        default: return "ready";
    }
}

// Lets every SIMD group that has wholly arrived at one shuffle exchange its values.
static bool exchange(Machine& m) {
    bool moved = false;
    for (nk_u32 s = 0; s < m.threads; s += kSimd) {
        Fiber* group = &m.fibers[s];
        bool here = true;
        for (nk_u32 l = 0; l < kSimd; ++l) here &= group[l].state == State::Simd && group[l].site == group[0].site;
        if (!here) continue;
        for (nk_u32 l = 0; l < kSimd; ++l) {
            if (group[l].source >= kSimd) {
                m.current = &group[l];
                m.kind = Kind::Divergence;
                m.message = "shuffle from a lane outside the SIMD group";
                return false;
            }
            group[l].result = group[group[l].source].value;
        }
        for (nk_u32 l = 0; l < kSimd; ++l) group[l].state = State::Ready;
        m.shuffles++;
        moved = true;
    }
    return moved;
}

// Runs one block to its end, or until something is wrong.
static void run_block(Machine& m, std::mt19937_64& rng) {
    m.shared.clear();
    ++m.epoch;
    std::vector<nk_u32> order(m.threads);
    for (nk_u32 t = 0; t < m.threads; ++t) {
        order[t] = t;
        Fiber& f = m.fibers[t];
        f.state = State::Ready;
        f.barriers = 0;
        f.tid = t;
        start(f.context, f.stack, entry);
    }
    for (;;) {
        if (m.seed) std::shuffle(order.begin(), order.end(), rng);
        bool ran = false;
        for (nk_u32 t : order) {
            Fiber& f = m.fibers[t];
            if (f.state != State::Ready) continue;
            ran = true;
            m.current = &f;
            change(m.home, f.context);
            if (m.kind != Kind::None) return;
        }
        if (exchange(m)) continue;
        if (m.kind != Kind::None) return;
        nk_u32 done = 0, waiting = 0;
        bool same = true;
        for (const Fiber& f : m.fibers) {
            done += f.state == State::Done;
            waiting += f.state == State::Barrier;
            same &= f.site == m.fibers[0].site;
        }
        if (done == m.threads) break;
        if (waiting == m.threads && same) {
            m.epoch++;
            m.barriers++;
            m.sites.insert({base_name(m.fibers[0].site.file), m.fibers[0].site.line});
            for (Fiber& f : m.fibers) f.state = State::Ready;
            continue;
        }
        if (!ran) {                       // nobody can move: say who waits where
            std::map<std::string, nk_u32> seen;
            for (const Fiber& f : m.fibers) seen.insert({where(f), f.tid});
            m.kind = Kind::Divergence;
            for (auto& [what, tid] : seen) m.message += "thread " + std::to_string(tid) + " " + what + "; ";
            return;
        }
    }
    size_t bytes = 0;
    for (auto& [name, s] : m.shared) bytes += s.bytes.size();
    m.shared_bytes = std::max<uint64_t>(m.shared_bytes, bytes);
}

static char* stack_of(nk_u32 t) {        // kept from launch to launch
    static thread_local std::vector<std::unique_ptr<char[]>> stacks;
    while (stacks.size() <= t) stacks.emplace_back(new char[kStackBytes]);
    return stacks[t].get();
}

static void run_grid(Machine& m) {
    m.fibers.resize(m.threads);
    for (nk_u32 t = 0; t < m.threads; ++t) m.fibers[t].stack = stack_of(t);
    std::mt19937_64 rng(m.seed);
    std::vector<nk_u32> blocks(m.grid_x * m.grid_y);
    for (nk_u32 b = 0; b < blocks.size(); ++b) blocks[b] = b;
    if (m.seed) std::shuffle(blocks.begin(), blocks.end(), rng);
    for (nk_u32 b : blocks) {
        m.block_x = b % m.grid_x;
        m.block_y = b / m.grid_x;
        run_block(m, rng);
        if (m.kind != Kind::None) return;
    }
}

}  // namespace nk

extern "C" {

struct NkBuffer {
    void* data;
    nk_u8* defined;     // a flag a byte
    size_t bytes;
};
struct NkLaunch {
    const char* name;
    uint32_t grid_x, grid_y, threads, n_buffers;
    const NkBuffer* buffers;
    const uint8_t* params;
    size_t params_bytes;
    uint64_t seed;
    int64_t skip_barrier;
};
struct NkResult {
    int kind;
    uint64_t barriers, shuffles, loads, stores, shared_bytes;
    char text[1024];    // the fault, or the barriers' places
};

// What makes a launch impossible before it starts.
static std::string misuse(const NkLaunch& l, const nk::Kernel& k) {
    const auto differ = [](const char* what, size_t want, size_t got) {
        return "takes " + std::to_string(want) + " " + what + ", launched with " + std::to_string(got);
    };
    if (l.threads != k.threads) return differ("threads", k.threads, l.threads);
    if (l.threads % nk::kSimd) return "a block is not a whole number of SIMD groups";
    if (l.n_buffers != k.elements.size()) return differ("buffers", k.elements.size(), l.n_buffers);
    if (l.params_bytes != k.params_bytes) return differ("bytes of parameters", k.params_bytes, l.params_bytes);
    for (uint32_t i = 0; i < l.n_buffers; ++i) {
        for (uint32_t j = 0; j < l.n_buffers; ++j) {
            const char *a = (char*)l.buffers[i].data, *b = (char*)l.buffers[j].data;
            const bool apart = a + l.buffers[i].bytes <= b || b + l.buffers[j].bytes <= a;
            if (i != j && k.written[i] && !apart)
                return "argument " + std::to_string(i) + " is written and overlaps argument " + std::to_string(j);
        }
    }
    return "";
}

void nk_launch(const NkLaunch* l, NkResult* out) {
    const auto report = [&](nk::Kind kind, const std::string& s) {
        out->kind = (int)kind;
        std::snprintf(out->text, sizeof out->text, "%s", s.c_str());
    };
    const auto found = nk::kernels().find(l->name);
    if (found == nk::kernels().end()) return report(nk::Kind::Usage, "no such kernel");
    const nk::Kernel& k = found->second;
    if (const std::string m = misuse(*l, k); !m.empty()) return report(nk::Kind::Usage, m);
    std::vector<std::vector<nk::Access>> shadows(l->n_buffers);
    std::vector<std::string> names;
    for (uint32_t i = 0; i < l->n_buffers; ++i) names.push_back("argument " + std::to_string(i));
    nk::Args args{{}, l->params};
    for (uint32_t i = 0; i < l->n_buffers; ++i) {
        const NkBuffer& b = l->buffers[i];
        const size_t length = b.bytes / k.elements[i];
        if (k.written[i]) shadows[i].resize(length);
        args.buffers.push_back({b.data, {names[i].c_str(), length, k.written[i] ? shadows[i].data() : nullptr, b.defined, false}});
    }
    nk::Machine m;
    m.seed = l->seed;
    m.skip_barrier = l->skip_barrier;
    m.grid_x = l->grid_x;
    m.grid_y = l->grid_y;
    m.threads = l->threads;
    m.body = [&] { k.call(args); };
    nk::M = &m;
    nk::run_grid(m);
    nk::M = nullptr;
    const uint64_t blocks = (uint64_t)l->grid_x * l->grid_y;
    out->barriers = blocks ? m.barriers / blocks : 0;
    out->shuffles = m.shuffles;
    out->loads = m.loads;
    out->stores = m.stores;
    out->shared_bytes = m.shared_bytes;
    if (m.kind != nk::Kind::None) return report(m.kind, m.message);
    std::string sites;
    for (auto& [file, line] : m.sites) sites += file + ":" + std::to_string(line) + "\n";
    report(nk::Kind::None, sites);
}

// Fills `out` with lines "name threads parameter-bytes written-mask"; returns the length needed.
size_t nk_kernels(char* out, size_t length) {
    std::string s;
    for (auto& [name, k] : nk::kernels()) {
        uint32_t written = 0;
        for (size_t i = 0; i < k.written.size(); ++i) written |= (uint32_t)k.written[i] << i;
        s += name + " " + std::to_string(k.threads) + " " + std::to_string(k.elements.size()) + " " +
             std::to_string(k.params_bytes) + " " + std::to_string(written) + "\n";
    }
    if (out && length) std::snprintf(out, length, "%s", s.c_str());
    return s.size() + 1;
}
}
