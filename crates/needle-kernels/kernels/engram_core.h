// Which row of each hash table a position reads, and the rows joined to one vector e of width d = tables * table.cols.
// For order index o and table j of that order, all in wrapping 32-bit arithmetic:
//     a = 0x9E3779B9 (o stride + j + 1);  for r < order: a = (a ^ token[t - r]) 0x01000193;  a ^= a >> 15;  row a % slots
// A token before the start counts as 0. A row is zero when the n-gram's first token lies before the start.

struct EngramParams {
    TableParams table;
    nk_u32 orders[4];         // lengths of the n-grams, n_orders of them
    nk_u32 n_orders;
    nk_u32 heads;             // tables an order
    nk_u32 stride;            // seeds between one order and the next
    nk_u32 slots;             // rows a table
    nk_u32 history_ring;
    nk_u32 rows_a_sequence;
    nk_u32 value_ring;
};

// Columns column + 4 lane + e of table `index`'s row, by one whole SIMD group.
NK_FN void nk_recall_row(NK_REG float (&v)[4], NK_GPTR(const nk_u32) history, NK_GPTR(const nk_u8) tables,
                         NK_GPTR(const nk_u16) norms, NK_GPTR(const float) levels, NK_CONST(EngramParams) p,
                         nk_u32 index, nk_u32 column, nk_u32 position, nk_u32 base,
                         nk_u32 lane) {
    const nk_u32 o = index / p.heads;
    // A parameter indexed by a variable would have to live in memory.
    const nk_u32 order = o == 0u ? p.orders[0] : (o == 1u ? p.orders[1] : (o == 2u ? p.orders[2] : p.orders[3]));
    nk_u32 a = 0x9E3779B9u * (o * p.stride + index % p.heads + 1u);
    for (nk_u32 r = 0u; r < order; ++r) {
        const nk_u32 token = r <= position ? history[base + (position - r) % p.history_ring] : 0u;
        a = (a ^ token) * 0x01000193u;
    }
    a ^= a >> 15;
    nk_fetch(v, tables, norms, levels, p.table, index * p.slots + a % p.slots, column, lane);
    if (position + 1u < order) {
        NK_UNROLL for (int e = 0; e < 4; ++e) v[e] = 0.0f;
    }
}
