export default function Page() {
  return <p>Shop</p>;
}
