-- Q13, customer distribution: how many customers have how many orders, special requests aside.
with order_counts as (
    select c_custkey, count(o_orderkey) as c_count
    from customer
    left join orders on o_custkey = c_custkey and o_comment not like '%special%requests%'
    group by c_custkey
)
select c_count, count(*) as custdist
from order_counts
group by c_count
order by custdist desc, c_count desc
